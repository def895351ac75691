"""New texts, ranked for new queries by a trained run."""

from pathlib import Path
from typing import Any

import pandas
import torch
import torch.nn.functional as F

from benchmarks.harness import tables_of_texts as tables
from benchmarks.harness.checkpoint import load_learner
from benchmarks.harness.errors import InputError, say
from benchmarks.harness.retrieval.task import QuestionRanker
from pyg_kernels.datasets.text import tokenize


def rank(options: Any) -> None:
    """Ranks the texts of a table for each query of another and writes the best."""
    out = Path(options.out)
    tables.refuse_existing([out], options.overwrite)
    tables.check_output(out)
    ranker = load_learner(options.checkpoint, QuestionRanker)
    columns = list(options.text_column) or ["text"]
    texts, vectors, known = [], [], set(ranker.hparams["words"])
    for name in (options.data, options.among):
        table, read = tables.texts_of(name, columns, options.encoding)
        words = list(map(tokenize, read))
        for line, text in zip(table.index, words, strict=True):
            if not text:
                raise InputError(f"{name}, line {line}: no words")
        tables.tell_lines(table, list(map(known.isdisjoint, words)), "no known word")
        texts.append(read)
        with torch.inference_mode():
            batches = tables.batches_of(ranker, words, options.batch_size)
            found = torch.cat([ranker.net.texts(batch) for batch in batches])
        vectors.append(F.normalize(found.float(), dim=1))
    (queries, candidates), (left, right) = texts, vectors
    best = min(options.best, len(candidates))
    rows = []
    for query, vector in zip(queries, left, strict=True):
        scores, places = (right @ vector).topk(best)
        chosen = [candidates[place] for place in places.tolist()]
        each = {"query": query, "rank": range(1, best + 1), "text": chosen}
        rows.append(pandas.DataFrame({**each, "cosine": scores.tolist()}))
    tables.write_table(out, pandas.concat(rows))
    say(f"the best {best} of {len(candidates)} texts for {len(queries)} queries in {out}")
