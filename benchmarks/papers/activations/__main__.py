"""``python -m benchmarks.papers.activations``: parity, a unit that charges, long memory.

Heavy imports happen after the options have been read.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness.errors import InputError, naming_extras
from benchmarks.harness.options import Command, run_commands
from benchmarks.papers.activations.options import Charging, LongTerm, Xor

PROGRAM = "benchmarks.papers.activations"
XOR = """\
One unit, y = f(w z + b), reads all patterns of bits, -1 or 1, and learns their parity by least
squares: solved when the nearest of 0 and 1 is right for every pattern. All trials are trained for
the same number of iterations, so that the learned functions can be compared: how bent one is, is
the total variation of its slope, the sum of the changes of slope at its kinks.
"""
CHARGING = """\
Sequences of 30 steps; 3 of them, drawn at random, hold an integer drawn from 0 to 9, the others 0.
h_t = x_t + [h_{t-1} > 1] (h_{t-1} - 1); the target at each step is whether h_t > 0. Every network
has one hidden unit and an affine read-out. Accuracy is that of all steps of 25,000 test sequences,
the same for every seed, at iterations spaced evenly in their logarithm, ten a decade. A trial ends
early when three checks in a row find no error.
"""
LONG_TERM = """\
Sequences of T random bits, -1 or 1, one a step; the class is a function of the first two. Every
iteration draws fresh sequences. A trial is learned when all of 2,000 test sequences, the same for
every seed, are classified right; this is looked at every 50 iterations and ends the trial.

A KBRN normalises, in training, by the statistics of each step, and so is the test set; the column
"running" has the accuracy in evaluation mode, by the running ones, at the end.

Without a preset it takes minutes; --preset practical, hours on two cores; --preset paper is the
paper's grid.
"""
STATUS = """
The grid of a folder may grow: --resume with other seeds, sizes or models adds trials, with more
--max-iterations goes on with those that had not learned. --report may be asked while another
process trains. OUT holds metrics.json, table.md, the pictures, configuration.json and runs/, with a
record and a checkpoint of each trial. A trial whose loss is no longer a number ends there, as not
learned. Exit status: 0 done, 2 bad input, 130 interrupted.
"""


def carry_out(options: Any) -> None:
    """Trains what the options ask for, prints the tables and writes the report."""
    with naming_extras("bench"):
        from benchmarks.harness.devices import torch_device
        from benchmarks.harness.study import Study
        from benchmarks.papers.activations import report, trials
    name = next(name for name, command in COMMANDS.items() if type(options) is command.options)
    cells = trials.trials_of(options, str(torch_device(options.device)))
    trials.check(cells)
    out = Path(options.out or f"runs/activations-{name}")
    study = Study(f"{PROGRAM} {name}", options, out, files=report.FILES)
    study.open()
    study.run(cells, trials.trained, trials.is_done, trials.outcome)
    records = study.records()
    if not records:
        raise InputError(f"--out {out} holds no finished trial")
    study.finish(report.REPORTS[name](options, records, study), records)


COMMANDS = {
    "xor": Command(Xor, carry_out, "Parity of two and four bits by one unit.", XOR + STATUS),
    "charging": Command(
        Charging, carry_out, "One recurrent unit that is charged and discharged.", CHARGING + STATUS
    ),
    "long-term": Command(
        LongTerm,
        carry_out,
        "Bits at the beginning of a long sequence, KBRN and LSTM.",
        LONG_TERM + STATUS,
    ),
}
main = partial(run_commands, PROGRAM, COMMANDS)

if __name__ == "__main__":
    sys.exit(main())
