"""New texts, ranked for new queries by a trained run."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.harness.checkpoint import read_checkpoint
from benchmarks.harness.errors import InputError, say
from benchmarks.harness.retrieval.learner import QuestionRanker
from benchmarks.harness.tables_of_texts import (
    check_output,
    checkpoint_of,
    refuse_existing,
    texts_of,
    write_table,
)
from pyg_kernels.datasets.text import EncodedTexts, TextLoader, Vocabulary, tokenize


def rank(options: argparse.Namespace) -> None:
    """Ranks the texts of a table for each query of another and writes the best.

    Raises:
        InputError: If a table or the checkpoint cannot be read, a text has no words, or the output
            exists.
    """
    out = Path(options.out)
    refuse_existing([out], options.overwrite)
    check_output(out)
    ranker = load_ranker(checkpoint_of(options.checkpoint))
    texts, vectors = [], []
    for name in (options.data, options.among):
        found = texts_of(name, [options.text_column], options.encoding)[1]
        words = [tokenize(text) for text in found]
        empty = next((row for row, text in enumerate(words, start=1) if not text), None)
        if empty is not None:
            raise InputError(f"row {empty} of {name} has no words")
        texts.append(found)
        vectors.append(text_vectors(ranker, words, options.batch_size))
    (queries, candidates), (left, right) = texts, vectors
    best = min(options.best, len(candidates))
    rows = []
    for number, block in enumerate(left.split(options.batch_size)):
        scores, places = (block @ right.t()).topk(best, dim=1)
        for row, (values, found) in enumerate(
            zip(scores.tolist(), places.tolist(), strict=True), number * options.batch_size
        ):
            rows += [
                (queries[row], place + 1, candidates[at], value)
                for place, (at, value) in enumerate(zip(found, values, strict=True))
            ]
    write_table(out, pandas.DataFrame(rows, columns=["query", "rank", "text", "cosine"]))
    say(f"the best {best} of {len(candidates)} texts for {len(queries)} queries in {out}")


@torch.inference_mode()
def text_vectors(ranker: QuestionRanker, texts: Sequence[Sequence[str]], batch_size: int) -> Tensor:
    """The vectors of texts, of length 1, ``(M, H)``.

    Args:
        ranker: A trained network.
        texts: Lists of words, at least one each.
        batch_size (int): Texts that are read together.
    """
    vocabulary = Vocabulary(ranker.hparams["words"])
    ids, ptr = vocabulary.encode(texts)
    encoded = EncodedTexts(ids, ptr, torch.zeros(len(texts), dtype=torch.long))
    found = [ranker.net.texts(batch) for batch in TextLoader(encoded, batch_size=batch_size)]
    return F.normalize(torch.cat(found).float(), dim=1)


def load_ranker(path: Path) -> QuestionRanker:
    """The network of a checkpoint, in evaluation mode.

    Raises:
        InputError: If there is no such file, or it is no such checkpoint.
    """
    checkpoint, arguments = read_checkpoint(path, [{"model", "words", "optimizer"}])
    try:
        ranker = QuestionRanker(**arguments)
        ranker.load_state_dict(checkpoint["state_dict"])
    except (RuntimeError, KeyError, TypeError, ValueError) as error:
        name = arguments["model"].get("name")
        raise InputError(f"--checkpoint {path} does not fit this version's {name}") from error
    return ranker.eval()
