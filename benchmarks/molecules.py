"""Regression on molecules: several models, one split, one table.

``python -m benchmarks.molecules --help`` trains and compares models;
``python -m benchmarks.molecules predict --help`` applies a trained one to a CSV of SMILES.
"""

import sys

from benchmarks.harness.molecules.command_line import main

if __name__ == "__main__":
    sys.exit(main())
