"""The rationales of new texts, by a trained run."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.harness.checkpoint import read_checkpoint
from benchmarks.harness.errors import InputError, naming_files, say, tell
from benchmarks.harness.files import write_text
from benchmarks.harness.rationale.learner import READINGS, RationaleLearner
from benchmarks.harness.rationale.page import marked_words, page, section
from benchmarks.harness.rationale.readers import SELECTED
from benchmarks.harness.rationale.spans import spans_text
from benchmarks.harness.tables_of_texts import (
    checkpoint_of,
    refuse_columns,
    refuse_existing,
    texts_of,
    write_table,
)
from pyg_kernels.datasets.text import EncodedTexts, TextLoader, Vocabulary, tokenize

ADDED = ("predicted", "full", "rest", "selection", "words")
COLUMNS = ADDED[:3]  # from the rationale, from everything, from the rest


def explain(options: argparse.Namespace) -> None:
    """Writes what is predicted of new texts, from which words, and a page of them.

    Raises:
        InputError: If the table or the checkpoint cannot be read, or the folder exists.
    """
    out = Path(options.out)
    refuse_existing([out], options.overwrite)
    learner = load_rationales(checkpoint_of(options.checkpoint))
    table, texts = texts_of(options.data, [options.text_column], options.encoding)
    words = [tokenize(text) for text in texts]
    kept = [row for row, text in enumerate(words) if text]
    if not kept:
        raise InputError(f"no text of {options.data} has words")
    refuse_columns(table, ADDED, options.data)
    if len(kept) < len(words):
        rows = ", ".join(str(row + 1) for row in range(len(words)) if not words[row])
        tell(
            f"{len(words) - len(kept)} of {len(words)} texts have no words and no rationale: {rows}"
        )
    whole, table = table, table.iloc[kept].reset_index(drop=True)
    words = [words[row] for row in kept]
    answers, chosen = rationales(learner, words, options.batch_size)
    classes = learner.hparams["classes"]
    for name, column in zip(COLUMNS, answers.t().tolist(), strict=True):
        table[name] = [classes[int(answer)] for answer in column] if classes else column
    table["selection"] = [spans_text(marks) for marks in chosen]
    table["words"] = [
        " ".join(word for word, is_chosen in zip(text, marks.tolist(), strict=True) if is_chosen)
        for text, marks in zip(words, chosen, strict=True)
    ]
    entries = [
        section([(str(table[COLUMNS[0]][row]), marked_words(words[row], chosen[row]))])
        for row in range(min(options.limit, len(words)))
    ]
    with naming_files(out):
        out.mkdir(parents=True, exist_ok=True)
        about = [f"{options.checkpoint} on {options.data}", "Marked: selected words."]
        write_text(out / "rationales.html", page("Rationales", about, entries))
    added = table[list(ADDED)].set_axis(kept)
    write_table(out / "rationales.csv", whole.join(added))
    say(f"rationales of {len(words)} texts in {out}")


@torch.inference_mode()
def rationales(
    learner: RationaleLearner, texts: Sequence[Sequence[str]], batch_size: int
) -> tuple[Tensor, list[Tensor]]:
    """The answers for texts and their selected words.

    Args:
        learner: A trained one.
        texts: Lists of words, at least one each.
        batch_size (int): Texts that are read together.

    Returns:
        ``(M, 3)``, from the rationale, from everything and from the rest; and for each text
        ``(N,)`` bool.
    """
    ids, ptr = Vocabulary(learner.hparams["words"]).encode(texts)
    encoded = EncodedTexts(ids, ptr, torch.zeros(len(texts), dtype=torch.long))
    lengths = encoded.lengths.tolist()
    learner.longest = max(lengths)
    loader = TextLoader(encoded, batch_size=batch_size)
    found = torch.cat([learner.predict_step(batch, k) for k, batch in enumerate(loader)])
    scores = found[:, len(READINGS) :] >= SELECTED
    chosen = [row[:length] for row, length in zip(scores, lengths, strict=True)]
    return found[:, : len(READINGS)], chosen


def load_rationales(path: Path) -> RationaleLearner:
    """The network of a checkpoint on texts, in evaluation mode.

    Raises:
        InputError: If there is no such file, or it is no such checkpoint.
    """
    keys = {"model", "words", "classes", "optimizer"}
    checkpoint, arguments = read_checkpoint(path, [keys])
    if arguments["model"].get("inputs") != "texts":
        raise InputError(f"--checkpoint {path} does not read texts")
    try:
        learner = RationaleLearner(**arguments)
        weights = checkpoint["state_dict"]
        learner.load_state_dict({k: v for k, v in weights.items() if k.startswith("net.")})
    except (RuntimeError, KeyError, TypeError, ValueError) as error:
        name = arguments["model"].get("name")
        raise InputError(f"--checkpoint {path} does not fit this version's {name}") from error
    return learner.eval()
