"""The rationales of new texts, by a trained run."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.harness.checkpoint import UNREADABLE
from benchmarks.harness.errors import InputError, naming_files, say, tell
from benchmarks.harness.files import write_text
from benchmarks.harness.tables_of_texts import (
    checkpoint_of,
    refuse_columns,
    refuse_existing,
    texts_of,
    write_table,
)
from benchmarks.rationales.learner import READINGS, RationaleLearner
from benchmarks.rationales.networks import SELECTED
from benchmarks.rationales.options import EXAMPLES, PROGRAM, Explain
from benchmarks.rationales.report import page
from benchmarks.rationales.selections import marked_words, spans_text
from pyg_kernels.datasets.text import EncodedTexts, TextLoader, Vocabulary, tokenize

COLUMNS = ("predicted", "full", "rest")  # from the rationale, from everything, from the rest
ADDED = (*COLUMNS, "selection", "words")


def explain(options: Explain) -> None:
    """Writes what is predicted of new texts, from which words, and a page of them.

    Raises:
        InputError: If the table or the checkpoint cannot be read, or the folder exists.
    """
    assert options.checkpoint and options.data and options.out
    out = Path(options.out)
    refuse_existing([out], options.overwrite)
    learner = load_rationales(checkpoint_of(options.checkpoint))
    table, texts = texts_of(options.data, list(options.text_column or ("text",)), options.encoding)
    refuse_columns(table, ADDED, options.data)
    every = [tokenize(text) for text in texts]
    kept = [row for row, words in enumerate(every) if words]
    if not kept:
        raise InputError(f"no text of {options.data} has words")
    if len(kept) < len(every):
        rows = ", ".join(str(row + 1) for row, words in enumerate(every) if not words)
        number = len(every) - len(kept)
        tell(f"{number} of {len(every)} texts have no words and no rationale: {rows}")
    read = [every[row] for row in kept]
    answers, chosen = rationales(learner, read, options.batch_size)
    classes = learner.hparams["classes"]
    added = table.iloc[kept][[]]
    for name, column in zip(COLUMNS, answers.t().tolist(), strict=True):
        added[name] = [classes[int(answer)] for answer in column] if classes else column
    added["selection"] = [spans_text(marks) for marks in chosen]
    added["words"] = [
        " ".join(word for word, is_chosen in zip(words, marks.tolist(), strict=True) if is_chosen)
        for words, marks in zip(read, chosen, strict=True)
    ]
    said = list(map(str, added[COLUMNS[0]]))[:EXAMPLES]
    sections = [
        [(name, marked_words(words, marks))]
        for name, words, marks in zip(said, read, chosen, strict=False)
    ]
    about = f"{options.checkpoint} on {options.data}\nMarked: selected words."
    with naming_files(out):
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / "rationales.html", page("Rationales", about, sections))
    write_table(out / "rationales.csv", table.join(added))
    say(f"rationales of {len(read)} texts in {out}")


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
    if not path.is_file():
        raise InputError(f"--checkpoint {path}: no such file")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        arguments = checkpoint["hyper_parameters"]
        program = arguments.get("program", "another command, or of an earlier version")
        inputs = arguments["model"]["inputs"] if program == PROGRAM else ""
    except UNREADABLE as error:
        raise InputError(f"--checkpoint {path} is not one of a network") from error
    if program != PROGRAM:
        raise InputError(f"--checkpoint {path} is of {program}, not of {PROGRAM}")
    if inputs != "texts":
        raise InputError(f"--checkpoint {path} reads {inputs}, not texts")
    try:
        learner = RationaleLearner(**arguments)
        weights = checkpoint["state_dict"]
        learner.load_state_dict({k: v for k, v in weights.items() if k.startswith("net.")})
    except UNREADABLE as error:
        raise InputError(f"--checkpoint {path} does not fit this version") from error
    return learner.eval()
