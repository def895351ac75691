"""``python -m pyg_kernels`` is the command ``pyg-kernels``."""

import sys

from pyg_kernels.molecules.command import main

sys.exit(main())
