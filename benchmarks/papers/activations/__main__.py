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
squares. A trial is solved when, for every pattern, the nearest of 0 and 1 is right. All trials have
the same number of iterations, so that the learned functions can be compared. The bend of a function
is measured by the total variation of its slope, the sum of the changes of slope at its kinks.
"""
CHARGING = """\
In each sequence of 30 steps, 3 random steps hold an integer drawn from 0 to 9, the others 0.
h_t = x_t + [h_{t-1} > 1] (h_{t-1} - 1); the target at each step is whether h_t > 0. Every network
has one hidden unit and an affine read-out. Accuracy is measured on all steps of 25,000 test
sequences, the same for every seed, at iterations spaced evenly in their logarithm, ten per decade.
A trial ends early when three checks in a row find no error.
"""
LONG_TERM = """\
Sequences of T random bits, -1 or 1, one per step; the class is a function of the first two bits.
Every iteration draws fresh sequences. A trial ends, as learned, when it classifies all of 2,000
test sequences, the same for every seed, correctly; this is checked every 50 iterations.

In training, a KBRN normalises by the statistics of each step, and does so on the test set too; the
column "running" has the accuracy at the end in evaluation mode, by the running statistics.

Without a preset this takes minutes, and --preset practical takes hours on two cores; --preset paper
is the grid of the paper.
"""
STATUS = """
The grid of a folder may grow: --resume with other seeds, sizes or models adds trials, and with more
--max-iterations it continues the trials that had not learned. --report also works while another
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
    "xor": Command(Xor, carry_out, XOR + STATUS, title="Parity of two and four bits by one unit."),
    "charging": Command(
        Charging,
        carry_out,
        CHARGING + STATUS,
        title="One recurrent unit that is charged and discharged.",
    ),
    "long-term": Command(
        LongTerm,
        carry_out,
        LONG_TERM + STATUS,
        title="Learns a function of the first two bits of a long sequence, by KBRN and LSTM.",
    ),
}
main = partial(run_commands, PROGRAM, COMMANDS)

if __name__ == "__main__":
    sys.exit(main())
