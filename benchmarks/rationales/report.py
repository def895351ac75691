"""The tables, the pictures and the page of rationales."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import torch
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.harness.experiment import Report
from benchmarks.harness.figures import picture_grid
from benchmarks.harness.files import write_text
from benchmarks.harness.summary import (
    by_model,
    mean_seconds,
    seeds_text,
    spread,
    spread_or_dash,
)
from benchmarks.harness.table import Table, number_format
from benchmarks.harness.training import BEST, Run
from benchmarks.rationales.learner import RationaleLearner
from benchmarks.rationales.options import EXAMPLES, FULL, SELECTING, TITLE
from benchmarks.rationales.selections import marked_words, read_spans
from benchmarks.rationales.task import CURVE, ItemRationales, RankingRationales

FILES = (
    *("rationales.html", "rationales.png", "learning_curves.png"),
    *("error_by_share.png", "precision_by_share.png"),
)
DRAWN = 6  # molecules of the picture
COLUMNS = 3
PIXELS = (420, 280)
SEED = 0  # of the choice of examples
BATCH = 256  # items that are read at once
Entries = list[tuple[str, Markup]]  # models, and what each selects


def report(out: Path, runs: list[Run], task: ItemRationales | RankingRationales) -> Report:
    """What finished runs, model by model, are shown by."""
    if isinstance(task, RankingRationales):
        tables, sections = [_ranking_table(runs, task)], list(_queries(runs, task))
        about, label = "Marked: the words that stand for the question.", "MAP in percent, test part"
    else:
        judged = _judge_table(out, runs, task)
        tables = [_table(runs, task), *([] if judged is None else [judged])]
        found = _examples(runs, task, EXAMPLES)
        sections = [[(name, task.data.marked(*one)) for name, *one in each] for each in found]
        about, label = (
            f"Marked: selected {task.data.unit}.",
            f"{task.measure.title}, rationale alone",
        )
        if any(marks is not None for marks in task.data.evidence):
            about += " Underlined: those that say it."
    pictures: dict[str, Callable[[], Figure]] = {
        "learning_curves.png": partial(learning_plot, runs),
        "error_by_share.png": partial(share_plot, runs, "test", label),
    }
    if any("test_precision" in run.record for run in runs):
        draw = partial(share_plot, runs, "test_precision", "precision in percent")
        pictures["precision_by_share.png"] = draw
    if isinstance(task, ItemRationales) and (drawn := _drawings(runs, task)):
        pictures["rationales.png"] = partial(picture_grid, drawn)
    title, lines = f"Rationales: {task.dataset}", f"{task.about}\n{about}"
    return Report(
        tables,
        pictures,
        lambda out: write_text(out / "rationales.html", page(title, lines, sections)),
    )


def page(title: str, about: str, sections: Sequence[Entries]) -> str:
    """A page of HTML that needs nothing besides itself."""
    template = Path(__file__).with_name("page.html.j2").read_text(encoding="utf-8")
    made = jinja2.Environment(autoescape=True, keep_trailing_newline=True).from_string(template)
    return str(made.render(title=title, about=about, sections=sections))


def _table(runs: Sequence[Run], task: ItemRationales) -> Table:
    """The comparison of models, each reading what is there and what it selects itself."""
    digits = task.measure.format(run.record["test_full"] for run in runs)
    rows = []
    for group in by_model(runs):
        records = [run.record for run in group]
        keys = ("test", "test_full", "test_rest")
        rows.append(
            [
                records[0]["model"],
                f"{records[0]['num_parameters']:,}",
                spread_or_dash([r.get("test_precision") for r in records], ".1f"),
                spread([r["test_share"] for r in records], ".1f"),
                *(spread([r[key] for r in records], digits) for key in keys),
                f"{mean_seconds(group):.1f}",
            ]
        )
    unit = task.data.unit
    number, whole = task.data.num_annotated("test"), len(task.parts["test"])
    where = f" of the {number:,} {task.data.kind} with evidence" if 0 < number < whole else ""
    caption = (
        f"{task.about}\n"
        f"Test part: of the {unit} selected{where}, percent that say it (precision); percent of "
        f"all {unit} selected; {task.measure.title} with the rationale alone, with all {unit}, and "
        f"with all but the rationale, each read by the model itself; {seeds_text(runs)}"
    )
    header = ("model", "parameters", "precision", "selected", "rationale", "full", "rest")
    return Table(caption, (*header, "s/epoch"), rows)


def _judge_table(out: Path, runs: Sequence[Run], task: ItemRationales) -> Table | None:
    """The errors of the network that reads everything on each model's selections.

    A run is read by the network of its own seed, or of the first seed where there is none.

    Returns:
        ``None`` where there is no such network, or nothing besides it.
    """
    seeds = sorted(run.record["seed"] for run in runs if run.record["model"] == FULL)
    groups = [group for group in by_model(runs) if group[0].record["model"] != FULL]
    if not seeds or not groups:
        return None
    judges = {
        seed: RationaleLearner.load_from_checkpoint(
            out / "runs" / f"{FULL}-seed{seed}" / BEST, map_location="cpu", weights_only=True
        ).eval()
        for seed in seeds
    }
    rows = []
    for group in groups:
        errors = [
            judge(judges.get(run.record["seed"], judges[seeds[0]]), run, task) for run in group
        ]
        digits = task.measure.format(error for pair in errors for error in pair)
        columns = zip(*errors, strict=True)
        rows.append([group[0].record["model"], *(spread(column, digits) for column in columns)])
    caption = (
        f"Test part: {task.measure.title} of the network {FULL}, which has learned from whole "
        f"{task.data.kind}, on rationales alone and on all but them; {seeds_text(runs)}"
    )
    return Table(caption, ("rationales of", "rationale", "rest"), rows)


@torch.no_grad()
def judge(learner: RationaleLearner, run: Run, task: ItemRationales) -> tuple[float, float]:
    """The errors of a network on the rationales of a run and on the rest, test part."""
    lengths = task.data.lengths[task.parts["test"]].tolist()
    spans = run.predictions[run.predictions["part"] == "test"]["selection"]
    chosen = map(read_spans, map(str, spans), lengths)
    answers: list[list[Tensor]] = [[], []]
    for batch in task.data.loader(task.parts["test"], BATCH):
        inputs = learner.net.inputs(batch)
        marks = torch.cat([next(chosen) for _ in range(len(batch.y))])
        for found, part in zip(answers, (marks, ~marks), strict=True):
            found.append(task.goal.answers(learner.net.answer(inputs, part)))
    right = task.data.right("test")
    rationale, rest = (task.goal.error(torch.cat(found), right) for found in answers)
    return rationale, rest


def _ranking_table(runs: Sequence[Run], task: RankingRationales) -> Table:
    """Rationales beside whole titles and whole bodies: thesis Table 3.4."""
    rows = []
    for group in by_model(runs):
        records = [run.record for run in group]
        name, kind = records[0]["model"], records[0]["kind"]
        reads = f" ({records[0]['fields']})" if task.data.has_bodies() else ""
        keys = ("valid", "test", "test_share")
        rows.append(
            [
                name if kind in SELECTING else f"{name}{reads}",
                f"{records[0]['num_parameters']:,}",
                *(spread([r[key] for r in records], ".1f") for key in keys),
                f"{mean_seconds(group):.1f}",
            ]
        )
    caption = (
        f"{task.about}\n"
        "Mean average precision in percent of the dev part, by which the epoch is chosen, and of "
        "the test part, and what percent of the words of its questions stand for them; "
        f"{seeds_text(runs)}"
    )
    header = ("model", "parameters", "MAP dev", "MAP test", "words", "s/epoch")
    return Table(caption, header, rows)


def _shown(runs: Sequence[Run]) -> list[tuple[str, Any]]:
    """One run of each model that does not read everything: its name and its test predictions."""
    firsts = [group[0] for group in by_model(runs) if group[0].record["kind"] not in (FULL, TITLE)]
    return [
        (
            f"{run.record['model']} (seed {run.record['seed']})",
            run.predictions[run.predictions["part"] == "test"],
        )
        for run in firsts
    ]


def _examples(
    runs: Sequence[Run], task: ItemRationales, most: int
) -> list[list[tuple[str, int, Tensor]]]:
    """Some items of the test part: for each model that selects what it says, and of what."""
    shown, places = _shown(runs), task.parts["test"].tolist()
    order = torch.randperm(len(places), generator=torch.Generator().manual_seed(SEED))
    found = []
    for row in order[:most].tolist() if shown else ():
        place, each = places[row], []
        for name, table in shown:
            line = table.iloc[row].to_dict()
            chosen = read_spans(str(line["selection"]), int(task.data.lengths[place]))
            each.append((f"{name}: {_said(line)}", place, chosen))
        found.append(each)
    return found


def _queries(runs: Sequence[Run], task: RankingRationales) -> Iterator[Entries]:
    """Some queries of the test part with what each model that selects takes of them."""
    shown, corpus = _shown(runs), task.data.corpus
    fields = {run.record["model"]: run.record["fields"] for run in runs}
    rankings = task.data.rankings["test"]
    order = torch.randperm(len(rankings), generator=torch.Generator().manual_seed(SEED))
    for place in order[:EXAMPLES].tolist() if shown else ():
        question = corpus.questions[rankings[place].query]
        entries = [("title", Markup.escape(" ".join(question.title)))]
        for name, table in shown:
            words = question.title if fields[name.split()[0]] == TITLE else question.body
            spans = table[table["query"] == question.id]["query_selection"].iloc[0]
            entries.append((name, marked_words(words, read_spans(str(spans), len(words)))))
        yield entries if task.data.has_bodies() else entries[1:]


def _drawings(runs: Sequence[Run], task: ItemRationales) -> list[list[tuple[str, bytes]]]:
    """Some molecules of the page, a row each, a column for each model that selects."""
    rows: list[list[tuple[str, bytes]]] = []
    for each in _examples(runs, task, DRAWN) if task.data.kind == "molecules" else ():
        drawn = partial(task.data.drawn, size=PIXELS, file_format="png")
        rows.append([(name.replace(": ", "\n", 1), drawn(*one)) for name, *one in each])
    if not rows or len(rows[0]) > 1:
        return rows
    flat = [cell for row in rows for cell in row]
    return [flat[k : k + COLUMNS] for k in range(0, len(flat), COLUMNS)]


def _said(line: dict[str, object]) -> str:
    """What is right, and what is said from the rationale."""
    if "label" in line:
        return f"{line['predicted']}, right: {line['label']}"
    numbers = [float(str(line[key])) for key in ("prediction", "y")]
    digits = number_format(numbers)
    return f"{numbers[0]:{digits}}, right: {numbers[1]:{digits}}"


def learning_plot(runs: Sequence[Run]) -> Figure:
    """Cost of the validation part by epoch (thesis Figure 3-6), and of models that select the share
    and, where evidence is known, the precision.
    """
    groups = [group for group in by_model(runs) if group[0].history]
    labels = {"valid_cost": "cost, validation part"}
    if any(group[0].record["kind"] in SELECTING for group in groups):
        labels["share"] = "percent selected"
    if any("precision" in epoch for group in groups for epoch in group[0].history):
        labels["precision"] = "precision in percent"
    figure = Figure(figsize=(max(5.0, 3.4 * len(labels)), 3.8), layout="constrained")
    panels = figure.subplots(1, len(labels), squeeze=False)[0]
    for (key, label), panel in zip(labels.items(), panels, strict=True):
        for j, group in enumerate(groups):
            name, kind = group[0].record["model"], group[0].record["kind"]
            for run in group if key == "valid_cost" or kind in SELECTING else ():
                points = [(epoch["epoch"], epoch[key]) for epoch in run.history if key in epoch]
                panel.plot(
                    *zip(*points, strict=True), color=f"C{j % 10}", linewidth=1.2, label=name
                )
                name = None
        panel.set(xlabel="epoch", ylabel=label)
    if groups:
        panels[0].legend(fontsize="small")
    figure.suptitle(f"{runs[0].record['dataset']}: learning rationales", fontsize="medium")
    return figure


def share_plot(runs: Sequence[Run], key: str, label: str) -> Figure:
    """A measure of the test part against the share selected (thesis Figures 3-4 and 3-5).

    A point is a model, over its seeds; points of one kind are joined. What reads everything is a
    level. The precision of what scores words is drawn at several shares.

    Args:
        runs: Finished runs, model by model.
        key (str): Of the measure in records.
        label (str): Of the vertical axis.
    """
    kinds: dict[str, list[list[Run]]] = {}
    for group in by_model(runs):
        if all(key in run.record for run in group):
            kinds.setdefault(group[0].record["kind"], []).append(group)
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for j, (kind, groups) in enumerate(kinds.items()):
        curve = CURVE if key == "test_precision" and "precision@0.1" in groups[0][0].record else {}
        points = [(100 * share, _values(groups[0], name)) for name, share in curve.items()] or [
            (statistics.mean(_values(group, "test_share")), _values(group, key)) for group in groups
        ]
        if kind in (FULL, TITLE):
            level = statistics.mean(points[0][1])
            axes.axhline(level, color=f"C{j % 10}", linestyle=":", label=kind)
        else:
            _points(axes, sorted(points), kind, f"C{j % 10}")
    axes.set(xlabel="percent selected", ylabel=label)
    axes.set_title(f"{runs[0].record['dataset']}, test part", fontsize="medium")
    axes.legend(fontsize="small")
    return figure


def _values(group: Sequence[Run], key: str) -> list[float]:
    return [run.record[key] for run in group]


def _points(
    axes: Axes, points: Sequence[tuple[float, Sequence[float]]], label: str, color: str
) -> None:
    bars = [statistics.stdev(values) if len(values) > 1 else 0.0 for _, values in points]
    axes.errorbar(
        [share for share, _ in points],
        [statistics.mean(values) for _, values in points],
        bars if any(bars) else None,
        label=label,
        color=color,
        marker="o",
        markersize=4,
        linewidth=1.2,
        capsize=2,
    )
