"""Tables of rankings, pictures of pre-training and of gates, and new texts ranked by a run."""

import json
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor
from torch_geometric.utils import scatter

from benchmarks.corpora.questions import questions_of
from benchmarks.harness import summary
from benchmarks.harness import tables_of_texts as tables
from benchmarks.harness.checkpoint import load_finished, load_learner
from benchmarks.harness.errors import InputError, say
from benchmarks.harness.figures import panels
from benchmarks.harness.files import write_text
from benchmarks.harness.retrieval.baselines import RERANKER, Baselines, Measures
from benchmarks.harness.retrieval.data import RANKED, QuestionData
from benchmarks.harness.retrieval.models import QuestionNet
from benchmarks.harness.retrieval.task import (
    METRICS,
    PretrainingTask,
    QuestionRanker,
    RetrievalTask,
    placed,
)
from benchmarks.harness.study import RUNS, Report, grouped, rows_table
from benchmarks.harness.table import Table
from benchmarks.harness.training import BEST, Run
from pyg_kernels.datasets.text import TextBatch, tokenize

BASELINES, CURVES, PRETRAINING = "baselines.json", "learning_curves.png", "pretraining.png"
FILES = (BASELINES, CURVES, PRETRAINING, "gates_by_position.png", "gates_by_word.png")
DIGITS = ".1f"
RCNNS = ("rcnn-scalar", "rcnn")  # a scalar decay needs no mean over units
FEWEST_TEXTS = 10  # that have a word at a position that is drawn
TEXTS_AT_ONCE = 256  # of which a gate's weights are in memory
TITLES, LEAST_WORDS, MOST_WORDS = 6, 4, 25  # of the picture by word


def describe(data: QuestionData) -> str:
    """Lines on questions, parts, words and what was left out."""
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
    """What shows the comparison."""
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
    """Thesis Table 2.9 and, where there are several poolings or fields, 2.10 and 2.11."""
    groups = summary.by_model(runs)
    keys = [part if key == "MRR" else f"{part}_{key}" for part in RANKED for key in METRICS]
    rows = [[name, "-", *_numbers([each]), "-", "-"] for name, each in baselines.measures.items()]
    minus_best = summary.minus_best(groups, partial(reciprocal_ranks, task), DIGITS)
    for group in groups:
        record, seconds = group[0].record, f"{summary.mean_seconds(group):.2f}"
        cells = [summary.spread([run.record[name] for run in group], DIGITS) for name in keys]
        size, less = f"{record['encoder_parameters']:,}", str(minus_best(group))
        rows.append([record["model"], size, *cells, less, seconds])
    reranker = f"no {RERANKER}: the dev part is too small for one"
    if baselines.has_reranker:
        best = max(groups, key=lambda group: statistics.mean(run.record["valid"] for run in group))
        both = []
        for run in best:  # its scores of candidates
            scores = {part: run.predictions.query("part == @part")["score"] for part in RANKED}
            own = {p: task.rankings(p, torch.tensor(s.to_numpy())) for p, s in scores.items()}
            both.append(baselines.measured(baselines.reranked_scores(own)))
        rows.append([f"{RERANKER} with {best[0].record['model']}", "-", *_numbers(both), "-", "-"])
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
    names = [f"{part} {key}" for part in RANKED for key in METRICS]
    return Table(caption, ["method", "parameters", *names, "minus best", "s/epoch"], rows)


def reciprocal_ranks(task: RetrievalTask, run: Run) -> pandas.Series:
    """Those of the first similar candidate of each list of the test part, in percent."""
    scores = torch.tensor(run.predictions.query("part == 'test'")["score"].to_numpy())
    lists = placed(task.rankings("test", scores), task.relevance["test"])
    ranks = [1 + len(places) - places[similar].max() for places, similar in lists if similar.any()]
    return pandas.Series([100 / float(rank) for rank in ranks])


def _perplexities(runs: Sequence[Run]) -> Table:
    """Perplexities of pre-trained encoder-decoders, and how their encoders rank as they are."""

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


def _numbers(measures: Sequence[Measures]) -> list[str]:
    """Each measure of both parts, over some runs."""
    places = [(part, key) for part in RANKED for key in METRICS]
    return [summary.spread([one[p][key] for one in measures], DIGITS) for p, key in places]


def pretraining_plot(runs: Sequence[Run]) -> Figure:
    """Perplexity (dotted) against MRR (solid) by epoch, bars over seeds: thesis Figure 2-7."""
    figure, (axes,) = panels(1, 1, (6.4, 4.2))
    right = axes.twinx()
    for k, group in enumerate(summary.by_model(runs)):
        epochs = range(1, 1 + min(len(run.history) for run in group))
        for panel, key, line in ((axes, "valid_perplexity", ":"), (right, "valid_MRR", "-")):
            values = [[run.history[j - 1][key] for run in group] for j in epochs]
            means = [statistics.mean(column) for column in values]
            bars = [statistics.stdev(c) for c in values] if len(group) > 1 else None
            name = group[0].record["model"] if line == "-" else None
            style: dict[str, Any] = {"color": f"C{k % 10}", "linewidth": 1.2, "linestyle": line}
            panel.errorbar(epochs, means, bars, label=name, capsize=2, **style)
    axes.set(xlabel="epoch", ylabel="perplexity of titles held out (dotted)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.set_ylabel("MRR on dev in percent (solid)")
    figure.legend(loc="outside lower center", ncols=5, fontsize="small")
    axes.set_title(f"{runs[0].record['dataset']}: pre-training", fontsize="medium")
    return figure


def _nets_with_gates(runs: Sequence[Run], out: Path) -> dict[str, QuestionNet]:
    """RCNNs by name, those with the easiest gates first.

    Of networks that differ in pooling and fields alone the one that is next to the thesis's: the
    last state, titles and bodies.
    """

    def distance(record: dict[str, Any]) -> int:
        return (record["pooling"] != "last") + (record["fields"] == "title")

    records = [run.record for run in runs if run.record["encoder"] in RCNNS]
    nets = {}
    for record in (min(group, key=distance) for group in grouped(records, "encoder", "pretrained")):
        path = out / RUNS / f"{record['model']}-seed{record['seed']}" / BEST
        nets[str(record["model"])] = load_finished(path, QuestionRanker).net
    return nets


def weights_by_position(
    net: QuestionNet, batches: Sequence[TextBatch]
) -> tuple[Tensor, Tensor, Tensor]:
    """At the first, second, ... word of all texts the mean over units and the largest unit, each a
    mean over texts, and how many texts have such a word.
    """
    means, largest, positions = [], [], []
    for words in batches:
        weights = net.gates(words)
        means.append(weights.mean(dim=1))
        largest.append(weights.amax(dim=1))
        positions.append(torch.arange(len(words.ids)) - words.ptr[words.text])
    position = torch.cat(positions)
    mean, most = (scatter(torch.cat(x), position, reduce="mean") for x in (means, largest))
    return mean, most, position.bincount()


def gates_by_position(nets: dict[str, QuestionNet], data: QuestionData) -> Figure:
    """Thesis Figure 2-9: over the questions of the dev and test parts."""
    figure, (axes,) = panels(1, 1, (6.4, 4.2))
    places = torch.tensor(questions_of([*data.rankings["valid"], *data.rankings["test"]]))
    for k, (name, net) in enumerate(nets.items()):
        bodies = places + len(data.corpus)
        rows = places if net.config.fields == "title" else torch.cat([places, bodies])
        rows = rows[data.texts.lengths[rows] > 0]
        batches = [data.texts.batch(some) for some in rows.split(TEXTS_AT_ONCE)]
        mean, largest, texts = weights_by_position(net, batches)
        shown = int((texts >= min(FEWEST_TEXTS, len(rows))).sum())
        lines = {"mean": ("-", mean), "largest": ("--", largest)}
        if net.config.encoder == "rcnn-scalar":
            del lines["largest"]
        for kind, (style, values) in lines.items():
            steps, label = range(1, shown + 1), f"{name}, {kind}"
            axes.plot(steps, values[:shown].tolist(), style, color=f"C{k % 10}", label=label)
    axes.set(xlabel="word", ylabel="1 - λ", ylim=(0, 1))
    title = f"{data.choice.dataset}, dev and test: what the gate takes in"
    axes.set_title(title, fontsize="medium")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(loc="outside lower center", ncols=2, fontsize="small")
    return figure


def gates_by_word(nets: dict[str, QuestionNet], data: QuestionData) -> Figure:
    """Thesis Figure 2-8: the beginnings of some queries of the dev part."""

    def order(name: str) -> tuple[int, bool]:
        return RCNNS.index(nets[name].config.encoder), not nets[name].config.pretrained

    name = min(nets, key=order)
    titles = [data.corpus.questions[ranking.query].title for ranking in data.rankings["valid"]]
    long_enough = [title for title in titles if len(title) >= LEAST_WORDS] or titles
    drawn = list(dict.fromkeys(tuple(title[:MOST_WORDS]) for title in long_enough))[:TITLES]
    encoded, ptr = data.vocabulary.encode(drawn)
    words = TextBatch(encoded, ptr, torch.zeros(len(drawn), dtype=torch.long))
    weights = nets[name].gates(words).mean(dim=1).split(ptr.diff().tolist())
    figure, found = panels(len(drawn), 1, (8, 1.7))
    for panel, title, heights in zip(found, drawn, weights, strict=True):
        panel.bar(range(len(title)), heights.tolist(), width=0.7)
        panel.set_xticks(range(len(title)), title, rotation=30, ha="right", fontsize="x-small")
        panel.set(ylim=(0, 1), ylabel="1 - λ")
    kind = "scalar decay" if nets[name].config.encoder == "rcnn-scalar" else "mean over units"
    figure.suptitle(f"{data.choice.dataset}, {name} ({kind})", fontsize="medium")
    return figure


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
