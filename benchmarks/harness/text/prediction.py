"""New texts, classified by a trained run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas
import torch

from benchmarks.harness import tables_of_texts as tables
from benchmarks.harness.checkpoint import load_learner
from benchmarks.harness.errors import InputError, naming_files, say
from benchmarks.harness.files import write_bytes, write_text
from benchmarks.harness.summary import png
from benchmarks.harness.table import Table
from benchmarks.harness.text.explanation import explain, explanation_plot
from benchmarks.harness.text.task import TextClassifier
from pyg_kernels.datasets.text import tokenize


def predict(options: Any) -> None:
    """Classifies the texts of the options and writes or prints what came out.

    A text without words has no class; its cells are empty, and its row is told. So is that of a
    text without a known word.
    """
    outputs = [Path(name) for name in (options.out, options.explain) if name]
    tables.refuse_existing(outputs, options.overwrite)
    if options.out:
        tables.check_output(Path(options.out))
    classifier = load_learner(options.checkpoint, TextClassifier)
    if options.text:
        table = pandas.DataFrame({"text": options.text})
        texts = list(options.text)
    else:
        columns = list(options.text_column) or ["text"]
        table, texts = tables.texts_of(options.data, columns, options.encoding)
    words = [tokenize(text) for text in texts]
    predictions = predicted(classifier, words, options.batch_size)
    tables.refuse_columns(table, predictions, options.data)
    table = pandas.concat([table, predictions], axis=1)
    known = set(classifier.hparams["words"])
    tables.tell_rows([not text for text in words], "no words and no class")
    tables.tell_rows([bool(text) and known.isdisjoint(text) for text in words], "no known word")
    if options.out:
        tables.write_table(Path(options.out), table)
    elif options.text:
        rows = [
            [cell if isinstance(cell, str) else f"{cell:.4f}".replace("nan", "") for cell in row]
            for row in table.itertuples(index=False)
        ]
        say(Table("", list(table), rows).text())
    if options.explain:
        _explain(classifier, [text for text in words if text][: options.limit], options)


def predicted(
    classifier: TextClassifier, texts: Sequence[Sequence[str]], batch_size: int
) -> pandas.DataFrame:
    """The most probable class of each text and the probability of each class."""
    classes = classifier.hparams["classes"]
    rows = [row for row, text in enumerate(texts) if text]
    probabilities = torch.full((len(texts), len(classes)), torch.nan)
    if rows:
        batches = tables.batches_of(classifier, [texts[row] for row in rows], batch_size)
        with torch.inference_mode():
            scores = [classifier.net(batch) for batch in batches]
        probabilities[rows] = torch.cat(scores).float().softmax(dim=1)
    best = probabilities.nan_to_num().argmax(dim=1).tolist()
    names = [classes[place] if text else "" for place, text in zip(best, texts, strict=True)]
    columns = [f"probability of {name}" for name in classes]
    frame = pandas.DataFrame(probabilities.numpy(), columns=columns)
    frame.insert(0, "predicted", names)
    return frame


def _explain(classifier: TextClassifier, texts: Sequence[Sequence[str]], options: Any) -> None:
    if not texts:
        raise InputError("--explain: no text has words")
    explanations = [explain(classifier, words) for words in texts]
    folder = Path(options.explain)
    pages = "\n\n".join(explanation.table().markdown() for explanation in explanations)
    with naming_files(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "explanation.md", f"{pages}\n")
        write_bytes(folder / "explanation.png", png(explanation_plot(explanations)))
    if options.text:
        say("\n\n".join(explanation.table().text() for explanation in explanations))
    say(f"explanations of {len(texts)} texts in {folder}")
