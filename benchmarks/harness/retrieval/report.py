"""Tables of rankings, pictures of pre-training and of gates, and new texts ranked by a run."""

import json
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pandas
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from benchmarks.corpora.questions import RANKED, questions_of
from benchmarks.harness import summary
from benchmarks.harness import tables_of_texts as tables
from benchmarks.harness.checkpoint import load_finished, load_learner
from benchmarks.harness.errors import InputError, say
from benchmarks.harness.figures import panels
from benchmarks.harness.files import write_text
from benchmarks.harness.retrieval.baselines import RERANKER, Baselines, Measures
from benchmarks.harness.retrieval.data import QuestionData
from benchmarks.harness.retrieval.models import QuestionNet
from benchmarks.harness.retrieval.task import (
    METRICS,
    PretrainingTask,
    QuestionRanker,
    RetrievalTask,
    similar_ranks,
)
from benchmarks.harness.study import RUNS, Report, grouped, rows_table
from benchmarks.harness.table import Table
from benchmarks.harness.training import BEST, Run
from pyg_kernels.datasets.text import TextBatch, tokenize

BASELINES, CURVES, PRETRAINING = "baselines.json", "learning_curves.png", "pretraining.png"
FILES = (BASELINES, CURVES, PRETRAINING, "gates_by_position.png", "gates_by_word.png")
DIGITS = ".1f"
FEWEST_TEXTS = 10  # a position is drawn if so many texts have a word there
TEXTS_AT_ONCE = 256  # texts whose gate weights are in memory together
TITLES, LEAST_WORDS, MOST_WORDS = 6, 4, 25  # of the picture by word


def describe(data: QuestionData) -> str:
    """Lines on questions, parts, words and what of the data was left out."""
    corpus = data.corpus
    pairs = sum(len(query.positives) for query in corpus.train)
    lists = ", ".join(f"{len(data.rankings[part]):,} {part}" for part in RANKED)
    questions = (
        f"{data.choice.dataset}: {len(corpus):,} questions, {corpus.split}; {pairs:,} pairs of "
        f"similar ones to train on, lists of candidates: {lists}"
    )
    left_out = [f"left out: {reason} ({number:,})" for reason, number in corpus.left_out.items()]
    words = data.describe_vectors(data.choice.vectors), data.describe_unknown(data.word_numbers())
    return "\n".join([questions, *left_out, *words])


def report(runs: list[Run], task: RetrievalTask, baselines: Baselines, out: Path) -> Report:
    """The tables and pictures of the comparison."""
    found = [_methods(runs, task, baselines)]
    pictures: dict[str, Callable[[], Figure]] = {
        CURVES: partial(summary.learning_curves, runs, task.measure, "MRR in percent", task.dataset)
    }
    started = [run.record for run in runs if run.record["pretrained"]]
    names = dict.fromkeys(f"{record['encoder']}-seed{record['seed']}" for record in started)
    folders = (out / "pretraining" / RUNS / name for name in names)
    if pretraining := [run for run in map(Run.read, folders) if run is not None]:
        found.append(_perplexities(pretraining))
        pictures[PRETRAINING] = partial(pretraining_plot, pretraining)
    if nets := _nets_with_gates(runs, out):
        both = gates_by_position, gates_by_word
        pictures |= {f"{draw.__name__}.png": partial(draw, nets, task.data) for draw in both}
    scores = json.dumps(baselines.measures, indent=1)
    return Report(found, pictures, lambda out: write_text(out / BASELINES, scores))


def pretraining_report(runs: list[Run], task: PretrainingTask) -> Report:
    """The table and the learning curves of pre-training."""
    shown = runs, task.measure, "perplexity", f"{task.dataset}, titles"
    return Report([_perplexities(runs)], {CURVES: partial(summary.learning_curves, *shown)})


def _methods(runs: Sequence[Run], task: RetrievalTask, baselines: Baselines) -> Table:
    """Thesis Table 2.9 and, if several poolings or fields are compared, 2.10 and 2.11."""
    groups, places = summary.by_model(runs), list(product(RANKED, METRICS))

    def row(name: str, found: Sequence[Measures], size: str = "-", *last: str) -> list[str]:
        """The row of a method, over some runs."""
        cells = [summary.spread([one[part][key] for one in found], DIGITS) for part, key in places]
        return [name, size, *cells, *(last or ("-", "-"))]

    rows = [row(name, [measures]) for name, measures in baselines.measures.items()]
    minus_best = summary.minus_best(groups, partial(reciprocal_ranks, task), DIGITS)
    for group in groups:
        name, size = (group[0].record[key] for key in ("model", "encoder_parameters"))
        last = str(minus_best(group)), f"{summary.mean_seconds(group):.2f}"
        found = [baselines.measured(_scores_of(run)) for run in group]
        rows.append(row(name, found, f"{size:,}", *last))
    reranker = f"no {RERANKER}: the dev part is too small for one"
    if RERANKER in baselines.measures:
        best = max(groups, key=lambda group: statistics.mean(run.record["valid"] for run in group))
        reranked = (baselines.reranked_scores(_scores_of(run)) for run in best)
        both = [baselines.measured(scores) for scores in reranked if scores]
        rows.append(row(f"{RERANKER} with {best[0].record['model']}", both))
        reranker = (
            f"{RERANKER}: a logistic regression over the baselines' scores, and over those of the "
            "network with the best MRR on dev as well, learned on dev (cross-validated there)"
        )
    caption = (
        f"Similar questions on {task.dataset}, {task.split}\n"
        "Mean average precision, mean reciprocal rank, precision at 1 and at 5 in percent, of the "
        "dev part (valid), by whose MRR the epoch is chosen, and of the test part; "
        f"{summary.seeds_text(runs)}\n"
        "-pt: pre-trained; -title: reads titles alone; parameters are those of the encoder, "
        "without word vectors\n"
        f"{summary.BOOTSTRAPPED.format('the queries of the test part and seeds, of the MRR')}\n"
        f"{'; '.join(baselines.notes)}\n"
        f"{reranker}"
    )
    columns = [f"{part} {key}" for part, key in places]
    return Table(caption, ["method", "parameters", *columns, "minus best", "s/epoch"], rows)


def _scores_of(run: Run) -> dict[str, Tensor]:
    """The scores of all candidates of both parts."""
    parts = run.predictions.groupby("part")["score"]
    return {part: torch.tensor(parts.get_group(part).to_numpy()) for part in RANKED}


def reciprocal_ranks(task: RetrievalTask, run: Run) -> pandas.Series:
    """The reciprocal rank of each test list's first similar candidate, in percent."""
    lists = similar_ranks(_scores_of(run)["test"], task.relevance["test"])
    return pandas.Series([100 / float(ranks[0]) for ranks in lists if len(ranks)])


def _perplexities(runs: Sequence[Run]) -> Table:
    """Perplexities of pre-trained encoder-decoders, and the MRR of their encoders as they are."""

    def ranked(run: Run) -> float:
        return min(run.history, key=lambda epoch: epoch["valid_error"])["valid_MRR"]

    columns: dict[str, Callable[[list[Run]], object]] = {
        "encoder": lambda group: group[0].record["model"],
        "width": lambda group: f"{group[0].record['hidden_size']:,}",
        "perplexity valid": summary.measured("valid", DIGITS),
        "test": summary.measured("test", DIGITS),
        "MRR": lambda group: summary.spread([ranked(run) for run in group], DIGITS),
        "s/epoch": lambda group: f"{summary.mean_seconds(group):.2f}",
    }
    caption = (
        f"Pre-training on {runs[0].record['dataset']}: perplexity of titles held out, valid: those "
        "by which the epoch is chosen\n"
        "MRR of the dev part in percent, by titles alone and the encoder as it is then; "
        f"{summary.seeds_text(runs)}"
    )
    return rows_table(caption, summary.by_model(runs), columns)


def pretraining_plot(runs: Sequence[Run]) -> Figure:
    """Perplexity (dotted) against MRR (solid) by epoch, bars over seeds: thesis Figure 2-7."""
    figure, (axes,) = panels(1, 1, (6.4, 4.2))
    right = axes.twinx()
    for k, group in enumerate(summary.by_model(runs)):
        epochs = pandas.concat([pandas.DataFrame(run.history) for run in group]).groupby("epoch")
        name = group[0].record["model"]
        for panel, key, line, label in (
            (axes, "valid_perplexity", ":", None),
            (right, "valid_MRR", "-", name),
        ):
            found = epochs[key].agg(["mean", "std", "size"])
            found = found[found["size"] == len(group)]  # only some seeds reach later epochs
            bars = found["std"] if len(group) > 1 else None
            style: dict[str, Any] = {"color": f"C{k % 10}", "linewidth": 1.2, "capsize": 2}
            panel.errorbar(found.index, found["mean"], bars, linestyle=line, label=label, **style)
    axes.set(xlabel="epoch", ylabel="perplexity of titles held out (dotted)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.set_ylabel("MRR on dev in percent (solid)")
    figure.legend(loc="outside lower center", ncols=5, fontsize="small")
    axes.set_title(f"{runs[0].record['dataset']}: pre-training", fontsize="medium")
    return figure


def _nets_with_gates(runs: Sequence[Run], out: Path) -> dict[str, QuestionNet]:
    """RCNNs by name.

    Of networks that differ only in pooling and fields, the one closest to the thesis's network,
    which reads titles and bodies and takes the last state.
    """
    records = [run.record for run in runs if run.record["encoder"] == "rcnn"]
    nets = {}
    for group in grouped(records, "pretrained"):
        record = min(group, key=lambda one: (one["pooling"] != "last", one["fields"] == "title"))
        path = out / RUNS / f"{record['model']}-seed{record['seed']}" / BEST
        nets[str(record["model"])] = load_finished(path, QuestionRanker).net
    return nets


def weights_by_position(net: QuestionNet, batches: Sequence[TextBatch]) -> pandas.DataFrame:
    """Gate weights by position in a text: the ``mean`` over units and the ``largest`` unit, each
    averaged over texts, and the number of ``texts`` with a word at the position.
    """
    frames = []
    for words in batches:
        weights, position = net.gates(words), torch.arange(len(words.ids)) - words.ptr[words.text]
        columns = {"mean": weights.mean(dim=1), "largest": weights.amax(dim=1), "place": position}
        frames.append(pandas.DataFrame(columns))
    places = pandas.concat(frames).groupby("place")
    return places.mean().assign(texts=places.size())


def gates_by_position(nets: dict[str, QuestionNet], data: QuestionData) -> Figure:
    """Thesis Figure 2-9: gate weights over the questions of the dev and test parts."""
    figure, (axes,) = panels(1, 1, (6.4, 4.2))
    titles = torch.tensor(questions_of([*data.rankings["valid"], *data.rankings["test"]]))
    both = torch.cat([titles, titles + len(data.corpus)])
    for k, (name, net) in enumerate(nets.items()):
        rows = titles if net.config.fields == "title" else both
        rows = rows[data.texts.lengths[rows] > 0]
        batches = [data.texts.batch(some) for some in rows.split(TEXTS_AT_ONCE)]
        found = weights_by_position(net, batches)
        found = found[found["texts"] >= min(FEWEST_TEXTS, len(rows))]
        for kind, line in (("mean", "-"), ("largest", "--")):
            style: dict[str, Any] = {"color": f"C{k % 10}", "label": f"{name}, {kind}"}
            axes.plot(1 + found.index, found[kind], line, **style)
    axes.set(xlabel="word", ylabel="1 - λ", ylim=(0, 1))
    axes.set_title(
        f"{data.choice.dataset}, dev and test: what the gate takes in", fontsize="medium"
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(loc="outside lower center", ncols=2, fontsize="small")
    return figure


def gates_by_word(nets: dict[str, QuestionNet], data: QuestionData) -> Figure:
    """Thesis Figure 2-8: gate weights at the beginnings of some queries of the dev part."""
    name = max(nets, key=lambda name: nets[name].config.pretrained)
    titles = [data.corpus.questions[ranking.query].title for ranking in data.rankings["valid"]]
    long_enough = [title for title in titles if len(title) >= LEAST_WORDS] or titles
    drawn = list(dict.fromkeys(tuple(title[:MOST_WORDS]) for title in long_enough))[:TITLES]
    words = TextBatch(*data.vocabulary.encode(drawn), torch.zeros(len(drawn), dtype=torch.long))
    weights = nets[name].gates(words).mean(dim=1).split(words.lengths.tolist())
    figure, found = panels(len(drawn), 1, (8, 1.7))
    for panel, title, heights in zip(found, drawn, weights, strict=True):
        panel.bar(range(len(title)), heights.tolist(), width=0.7)
        panel.set_xticks(range(len(title)), title, rotation=30, ha="right", fontsize="x-small")
        panel.set(ylim=(0, 1), ylabel="1 - λ")
    figure.suptitle(f"{data.choice.dataset}, {name} (mean over units)", fontsize="medium")
    return figure


def rank(options: Any) -> None:
    """Ranks the texts of a table for each query of another and writes the best."""
    out = Path(options.out)
    tables.check_table(out, options.overwrite)
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
    best, rows = min(options.best, len(candidates)), []
    for query, vector in zip(queries, left, strict=True):
        scores, places = (right @ vector).topk(best)
        hits = enumerate(zip(places.tolist(), scores.tolist(), strict=True), start=1)
        rows += [(query, rank, candidates[place], score) for rank, (place, score) in hits]
    table = pandas.DataFrame(rows, columns=["query", "rank", "text", "cosine"])
    tables.write_table(out, table)
    say(f"the best {best} of {len(candidates)} texts for {len(queries)} queries in {out}")
