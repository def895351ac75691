"""``python -m benchmarks.papers.explanations``: exact attributions beside other explainers.

Heavy imports happen after the options have been read.
"""

import sys
from functools import partial
from pathlib import Path

from benchmarks.harness.errors import naming_extras, say
from benchmarks.harness.options import Command, run_commands
from benchmarks.papers.explanations.options import Explanations

PROGRAM = "benchmarks.papers.explanations"
DETAILS = """\
A Weisfeiler-Lehman kernel network learns the number of a functional group in molecules. Several
methods explain its predictions and are compared by the atoms that they find. The contributions that
add up to a prediction are drawn: for that network, for one of measured targets and, with
--text-root, for an RCNN that classifies sentences.

OUT holds metrics.json, table.md, explanations.html, planted.png, molecules.png, sentence-N.png,
configuration.json and runs/, with the trained networks and the explanation of each molecule by each
method. --resume with other --methods adds them.
Exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
"""


def carry_out(options: Explanations) -> None:
    """Compares explanations of networks with what was planted."""
    with naming_extras("mol,bench"):
        import captum  # noqa: F401

        import pyg_kernels.chem  # noqa: F401
        from benchmarks.harness.study import Study
        from benchmarks.papers.explanations.task import FILES, Task
    out = Path(options.out or "runs/explanations")
    task = Task(options, out)
    packages = ("torch", "torch-geometric", "lightning", "rdkit", "captum", "numpy")
    study = Study(PROGRAM, options, out, task.identity(), packages, FILES)
    study.open()
    if not options.quiet:
        say(task.measured.describe())
    study.run(task.cells(), lambda cell, folder: cell.compute(folder))
    study.finish(*task.results(study.records()))


main = partial(run_commands, PROGRAM, {"": Command(Explanations, carry_out, DETAILS)})

if __name__ == "__main__":
    sys.exit(main())
