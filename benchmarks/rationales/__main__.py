"""``python -m benchmarks.rationales``: learns which few words or atoms suffice, and measures them.

Heavy imports happen after the options have been read.
"""

import sys
from functools import partial
from pathlib import Path

from benchmarks.harness.errors import naming_extras
from benchmarks.harness.options import Command, run_commands
from benchmarks.rationales.options import PROGRAM, Explain, Rationales, defaults_text

DETAILS = f"""\
Lei's thesis (2017), chapter 3. A generator selects some words and an encoder predicts from these
words alone. The price of a word is adjusted until the share --rate is selected. Models: dependent
(each selection depends on those before it), independent (it does not), attention and svm (the words
with the largest weights of a model that reads all words), full (a model that reads all words),
title (a model that reads titles of questions).

planted: a sentence of a film review among questions, so that the words that say its polarity are
known (files in DIR/mr and DIR/trec of --root DIR, downloaded if missing). beer: ratings of one
aspect; selections are compared with annotations. molecules: how often a functional group occurs (in
RDKit's ChEMBL assay, or in CEP with --root). chembl: the potency in that assay. askubuntu, msrp:
similar questions or sentences, found by the words selected from bodies (msrp: sentences). Your own:
--data FILE is a table with a header (CSV, TSV, Parquet, also compressed) of texts, their targets
(classes or numbers) and, optionally, the phrases that say the target, to compare selections with.

Defaults that depend on the data:
{defaults_text()}

To predict new texts, with the words that the predictions are made from:
  explain --checkpoint OUT/runs/dependent-seed0 --data new.csv --out explained

OUT holds metrics.json, predictions.csv, table.md, rationales.html (selections in color), pictures,
configuration.json and runs/. Each run keeps the checkpoint of the epoch with the lowest cost on the
validation part; this cost does not use the annotated evidence.
Exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
"""


def compare(options: Rationales) -> None:
    """Learns which few words or atoms suffice for a prediction, and measures them."""
    with naming_extras("bench"):
        from benchmarks.harness.experiment import Experiment
        from benchmarks.rationales.report import FILES, report
        from benchmarks.rationales.task import task_of
    task, chosen = task_of(options), options.chosen()
    out = Path(options.out or f"runs/rationales-{options.dataset}")
    training = options.training(epochs=chosen.epochs, batch_size=chosen.batch_size, lr=chosen.lr)
    models = task.models(options)
    experiment = Experiment(PROGRAM, options, out, task, models, training=training, files=FILES)
    experiment.carry_out(lambda runs: report(out, runs, task), task.about)


def explain(options: Explain) -> None:
    """Predicts new texts and marks the words that predictions are made from."""
    with naming_extras("bench"):
        from benchmarks.rationales.report import explain as carry_out
    carry_out(options)


COMMANDS = {
    "": Command(Rationales, compare, DETAILS),
    "explain": Command(Explain, explain),
}
main = partial(run_commands, PROGRAM, COMMANDS)

if __name__ == "__main__":
    sys.exit(main())
