"""``python -m benchmarks.kernels``: the exact kernels beside GraKeL, on molecules.

Heavy imports happen after the options have been read.
"""

import hashlib
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness.errors import as_input_error, naming_extras
from benchmarks.harness.options import Command, run_commands
from benchmarks.kernels.options import MUTAG, TASKS, Kernels, planned

PROGRAM = "benchmarks.kernels"
PACKAGES = ("torch", "torch-geometric", "numpy", "scipy", "scikit-learn", "rdkit", "grakel")
DETAILS = """\
wl-gram: the Gram matrix of Weisfeiler-Lehman subtrees, by inner products; wl-min: the same by
minima, which is optimal assignment; wl-minmax: by the ratio of minima and maxima. sequences: the
Gram matrix of label sequences of walks without turning back; paths: of shortest paths; walk-gram:
of labelled random walks. wl-features: subtree counts of the whole data set, as a sparse matrix, and
of copies of it with permuted atoms. gp: an exact Gaussian process with the min-max kernel on
--molecules training molecules. accuracy: classification by nested cross-validation on --sets.
regression: ridge regression by random features of the random-walk kernel, and by its exact Gram
matrix on a few molecules.

An atom's label is its element. Both libraries compute each Gram matrix from their own input; the
largest difference between their values is shown. If GraKeL is missing (pip install grakel), its
rows say so. Every measurement runs in a process of its own; --resume keeps finished ones.

OUT holds metrics.json, table.md, configuration.json and runs/.
Exit status: 0 done, 1 a measurement failed, 2 bad input, 130 interrupted.
"""


def carry_out(asked: Kernels) -> None:
    """Measures the exact kernels beside GraKeL, and random features beside exact kernels."""
    with naming_extras("mol,bench"):
        from benchmarks.harness.devices import torch_device
        from benchmarks.harness.study import Report, Study
        from benchmarks.kernels import accuracy, libraries, measure, report
    options = replace(asked, device=str(torch_device(asked.device)))
    with as_input_error():
        number = len(libraries.load(options))
    train = len(libraries.parts_of(number)["train"])
    data: dict[str, Any] = {"molecules": number}
    for name in options.sets if "accuracy" in options.tasks and not options.report else ():
        if name != MUTAG:
            rows = repr(accuracy.rows_of(name)).encode()
            data[f"set {name}"] = hashlib.sha256(rows).hexdigest()[:16]
    out = Path(options.out or f"runs/kernels-{options.data}")
    study = Study(PROGRAM, options, out, data, PACKAGES)
    study.open()
    cells = [one for one in planned(options, number, train) if one.task in options.tasks]
    study.run(
        cells,
        compute=lambda cell, folder: measure.measured(options, cell, folder),
        is_done=lambda cell, record: "failed" not in record,
        outcome=report.outcome,
    )
    if not options.report:  # a study that still runs needs them
        for path in out.glob(f"runs/*/{measure.VALUES}"):
            path.unlink()
    records = sorted(study.records(), key=lambda one: TASKS.index(one["task"]))
    tables = report.tables(records, options, number)
    study.finish(Report(tables))


main = partial(run_commands, PROGRAM, {"": Command(Kernels, carry_out, DETAILS)})

if __name__ == "__main__":
    sys.exit(main())
