"""The rationales of new texts, by a trained run."""

from collections.abc import Sequence
from itertools import compress, islice
from pathlib import Path

import pandas
import torch

from benchmarks.harness import tables_of_texts as tables
from benchmarks.harness.checkpoint import load_learner
from benchmarks.harness.errors import InputError, naming_files, say
from benchmarks.harness.files import write_text
from benchmarks.rationales.learner import READINGS, RationaleLearner
from benchmarks.rationales.networks import SELECTED
from benchmarks.rationales.options import EXAMPLES, Explain
from benchmarks.rationales.report import page
from benchmarks.rationales.selections import marked_words, read_spans, spans_text
from pyg_kernels.datasets.text import tokenize

COLUMNS = ("predicted", "full", "rest")  # from the rationale, from everything, from the rest
ADDED = (*COLUMNS, "selection", "words")


def explain(options: Explain) -> None:
    """Writes what is predicted of new texts, from which words, and a page of them."""
    assert options.checkpoint and options.data and options.out
    out = Path(options.out)
    tables.refuse_existing([out], options.overwrite)
    tables.check_folder(out)
    learner = load_learner(options.checkpoint, RationaleLearner)
    reads = learner.net.config.inputs
    if reads != "texts":
        raise InputError(f"--checkpoint {options.checkpoint} reads {reads}, not texts")
    table, texts = tables.texts_of(
        options.data, list(options.text_column or ("text",)), options.encoding
    )
    tables.refuse_columns(table, ADDED, options.data)
    every = {row: tokenize(text) for row, text in enumerate(texts)}
    kept = {row: words for row, words in every.items() if words}
    if not kept:
        raise InputError(f"no text of {options.data} has words")
    lacking = [row not in kept for row in every]
    tables.tell_lines(table, lacking, "no words and no rationale")
    known = set(learner.hparams["words"])
    unknown = [bool(words) and known.isdisjoint(words) for words in every.values()]
    tables.tell_lines(table, unknown, "no known word")
    read = list(kept.values())
    added = rationales(learner, read, options.batch_size).set_index(table.index[list(kept)])
    shown = zip(added["predicted"], added["selection"], read, strict=True)
    sections = [
        [(str(said), marked_words(words, read_spans(spans, len(words))))]
        for said, spans, words in islice(shown, EXAMPLES)
    ]
    about = f"{options.checkpoint} on {options.data}\nMarked: selected words."
    with naming_files(out):
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / "rationales.html", page("Rationales", about, sections))
    tables.write_table(out / "rationales.csv", table.join(added))
    say(f"rationales of {len(read)} texts in {out}")


@torch.inference_mode()
def rationales(
    learner: RationaleLearner, texts: Sequence[Sequence[str]], batch_size: int
) -> pandas.DataFrame:
    """For each text, lists of words, what is predicted from what, and what is selected."""
    learner.longest, classes = max(map(len, texts)), learner.hparams["classes"]
    loader = tables.batches_of(learner, texts, batch_size)
    found = torch.cat([learner.predict_step(batch, k) for k, batch in enumerate(loader)])
    answers = found[:, : len(READINGS)].t().tolist()
    table = {
        name: [classes[int(answer)] for answer in column] if classes else column
        for name, column in zip(COLUMNS, answers, strict=True)
    }
    rows = found[:, len(READINGS) :] >= SELECTED
    chosen = [row[: len(words)] for row, words in zip(rows, texts, strict=True)]
    table["selection"] = list(map(spans_text, chosen))
    table["words"] = [" ".join(compress(words, c)) for words, c in zip(texts, chosen, strict=True)]
    return pandas.DataFrame(table)
