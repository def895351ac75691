"""Pictures of pre-training and of gates."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from benchmarks.harness.checkpoint import UNREADABLE, lost_checkpoint
from benchmarks.harness.errors import InputError
from benchmarks.harness.old_experiment import RUNS
from benchmarks.harness.retrieval.data import QuestionData
from benchmarks.harness.retrieval.gates import gate_weights, weights_by_position
from benchmarks.harness.retrieval.learner import QuestionRanker
from benchmarks.harness.retrieval.models import QuestionNet
from benchmarks.harness.summary import by_model
from benchmarks.harness.training import BEST, Run
from pyg_kernels.datasets.text import TextBatch

RCNNS = ("rcnn-scalar", "rcnn")
FEWEST_TEXTS = 10  # that have a word at a position that is drawn
TEXTS_AT_ONCE = 256  # of which a gate's weights are in memory
TITLES, LEAST_WORDS, MOST_WORDS = 6, 4, 25  # of the picture by word


def pretraining_plot(runs: Sequence[Run]) -> Figure:
    """Perplexity (dotted) against MRR (solid) by epoch, bars over seeds: thesis Figure 2-7.

    Args:
        runs: Finished runs of pre-training, model by model.
    """
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    right = axes.twinx()
    colors = matplotlib.colormaps["tab10"]
    for k, group in enumerate(by_model(runs)):
        length = min(len(run.history) for run in group)
        epochs = range(1, length + 1)
        for panel, key, line in ((axes, "valid_perplexity", ":"), (right, "valid_MRR", "-")):
            values = [[run.history[j][key] for run in group] for j in range(length)]
            means = [statistics.mean(column) for column in values]
            bars = [statistics.stdev(c) if len(c) > 1 else 0.0 for c in values]
            name = group[0].record["model"] if line == "-" else None
            style: dict[str, Any] = {"color": colors(k % 10), "linewidth": 1.2, "capsize": 2}
            style["linestyle"] = line
            panel.errorbar(epochs, means, bars if len(group) > 1 else None, label=name, **style)
    axes.set(xlabel="epoch", ylabel="perplexity of titles held out (dotted)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    right.set_ylabel("MRR on dev in percent (solid)")
    figure.legend(loc="outside lower center", ncols=5, fontsize="small")
    axes.set_title(f"{runs[0].record['dataset']}: pre-training", fontsize="medium")
    return figure


def gate_pictures(out: Path, runs: Sequence[Run], data: QuestionData) -> dict[str, Figure]:
    """The weights of RCNNs' gates by position and by word; none without an RCNN.

    Of networks that differ in pooling and fields alone one is drawn, if there is one as the thesis
    has it: the last state, titles and bodies.

    Args:
        out (Path): The results folder, with the checkpoints.
        runs: Finished runs, model by model.
        data: The questions.

    Raises:
        InputError: If a checkpoint is missing or damaged.
    """
    kinds: dict[tuple[str, bool], dict[str, Any]] = {}
    for run in runs:
        record = run.record
        kind = (record["encoder"], record["pretrained"])
        if record["encoder"] in RCNNS and _rank(record) < _rank(kinds.get(kind)):
            kinds[kind] = record
    nets = {}
    for record in kinds.values():
        folder = out / RUNS / f"{record['model']}-seed{record['seed']}"
        nets[str(record["model"])] = _trained(folder / BEST)
    if not nets:
        return {}
    # A scalar decay needs no mean over units.
    name = min(nets, key=lambda name: (RCNNS.index(nets[name].config.encoder), "-pt" not in name))
    return {
        "gates_by_position.png": _by_position(nets, data),
        "gates_by_word.png": _by_word(name, nets[name], data),
    }


def _trained(path: Path) -> QuestionNet:
    """The network of a checkpoint."""
    try:
        ranker = QuestionRanker.load_from_checkpoint(path, map_location="cpu", weights_only=True)
    except UNREADABLE as error:
        raise InputError(lost_checkpoint(path)) from error
    return ranker.net.eval()


def _rank(record: dict[str, Any] | None) -> int:
    """How far a network is from the thesis's."""
    if record is None:
        return 3
    return (record["pooling"] != "last") + (record["fields"] == "title")


def _by_position(nets: dict[str, QuestionNet], data: QuestionData) -> Figure:
    """Thesis Figure 2-9: over the questions of the dev and test parts."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    colors = matplotlib.colormaps["tab10"]
    rankings = [*data.rankings["valid"], *data.rankings["test"]]
    places = torch.tensor(sorted({p for r in rankings for p in (r.query, *r.candidates)}))
    for k, (name, net) in enumerate(nets.items()):
        bodies = places + len(data.corpus)
        rows = places if net.config.fields == "title" else torch.cat([places, bodies])
        rows = rows[data.texts.lengths[rows] > 0]
        batches = (data.texts.batch(some) for some in rows.split(TEXTS_AT_ONCE))
        weights = weights_by_position(net, batches)
        shown = int((weights.texts >= min(FEWEST_TEXTS, len(rows))).sum())
        steps = range(1, shown + 1)
        style: dict[str, Any] = {"color": colors(k % 10), "linewidth": 1.2}
        axes.plot(steps, weights.mean[:shown].tolist(), label=f"{name}, mean", **style)
        if net.config.encoder != "rcnn-scalar":
            label = f"{name}, largest"
            axes.plot(steps, weights.largest[:shown].tolist(), linestyle="--", label=label, **style)
    axes.set(xlabel="word", ylabel="1 - λ", ylim=(0, 1))
    axes.set_title(
        f"{data.choice.dataset}, dev and test: what the gate takes in", fontsize="medium"
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(loc="outside lower center", ncols=2, fontsize="small")
    return figure


def _by_word(name: str, net: QuestionNet, data: QuestionData) -> Figure:
    """Thesis Figure 2-8: the beginnings of some queries of the dev part."""
    titles = [data.corpus.questions[ranking.query].title for ranking in data.rankings["valid"]]
    long_enough = [title for title in titles if len(title) >= LEAST_WORDS] or titles
    drawn = list(dict.fromkeys(tuple(title[:MOST_WORDS]) for title in long_enough))[:TITLES]
    encoded, ptr = data.vocabulary.encode(drawn)
    words = TextBatch(encoded, ptr, torch.zeros(len(drawn), dtype=torch.long))
    weights = gate_weights(net, words).mean(dim=1)
    figure = Figure(figsize=(8, 1.7 * len(drawn)), layout="constrained")
    panels = figure.subplots(len(drawn), 1, squeeze=False)[:, 0]
    for panel, title, heights in zip(
        panels, drawn, weights.split(ptr.diff().tolist()), strict=True
    ):
        panel.bar(range(len(title)), heights.tolist(), width=0.7)
        panel.set_xticks(range(len(title)), title, rotation=30, ha="right", fontsize="x-small")
        panel.set(ylim=(0, 1), ylabel="1 - λ")
    kind = "scalar decay" if net.config.encoder == "rcnn-scalar" else "mean over units"
    figure.suptitle(f"{data.choice.dataset}, {name} ({kind})", fontsize="medium")
    return figure
