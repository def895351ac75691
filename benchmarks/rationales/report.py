"""Tables, pictures and a page of rationales, and the page of new texts read by a trained run."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import compress, islice
from pathlib import Path
from typing import Any

import jinja2
import pandas
import torch
from markupsafe import Markup
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.harness import summary
from benchmarks.harness import tables_of_texts as tables
from benchmarks.harness.checkpoint import load_finished, load_learner
from benchmarks.harness.errors import InputError, naming_files, say
from benchmarks.harness.figures import panels, picture_grid
from benchmarks.harness.files import write_text
from benchmarks.harness.retrieval.report import reciprocal_ranks
from benchmarks.harness.study import Report
from benchmarks.harness.table import Table, number_format
from benchmarks.harness.training import BEST, Run
from benchmarks.rationales.learner import READINGS, RationaleLearner
from benchmarks.rationales.networks import SELECTED
from benchmarks.rationales.options import EXAMPLES, FULL, READERS, SELECTING
from benchmarks.rationales.selections import CURVE, marked_words, read_spans, spans_text
from benchmarks.rationales.task import ItemRationales, MoleculeRationales, RankingRationales
from pyg_kernels.datasets.text import tokenize

FILES = (
    *("rationales.html", "rationales.png", "learning_curves.png"),
    *("error_by_share.png", "precision_by_share.png"),
)
DRAWN = 6  # molecules of the picture
COLUMNS = 3
PIXELS = (420, 280)
SEED = 0  # of the choice of examples
BATCH = 256  # items read at once
COST = "valid_cost"
LABELS = {
    COST: "cost, validation part",
    "share": "percent selected",
    "precision": "precision in percent",
}
ANSWERS = ("predicted", "full", "rest")  # from the rationale, from everything, from the rest
ADDED = (*ANSWERS, "selection", "words")
Entries = list[tuple[str, Markup]]  # models, and the selection of each
Examples = list[tuple[str, int, Tensor]]  # each model's answer, the item, and the selection


def report(out: Path, runs: list[Run], task: ItemRationales | RankingRationales) -> Report:
    """The tables, pictures and page of finished runs, model by model."""
    tables = [_comparison(runs, task)]
    pictures: dict[str, Callable[[], Figure]] = {}
    pictures["learning_curves.png"] = partial(learning_plot, runs)
    if isinstance(task, RankingRationales):
        sections = list(_queries(runs, task))
        about, label = "Marked: the words that stand for the question.", "MAP in percent, test part"
    else:
        tables += _judge_table(out, runs, task)
        examples = _examples(runs, task)
        sections = [
            [(name, task.marked(place, chosen)) for name, place, chosen in each]
            for each in examples
        ]
        about, label = f"Marked: selected {task.unit}.", f"{task.measure.title}, rationale alone"
        if any(marks is not None for marks in task.evidence):
            about += " Underlined: those that say it."
        if isinstance(task, MoleculeRationales):
            pictures["rationales.png"] = partial(drawings, examples, task)
    pictures["error_by_share.png"] = partial(share_plot, runs, "test", label)
    if any("test_precision" in run.record for run in runs):
        precise = "test_precision", "precision in percent"
        pictures["precision_by_share.png"] = partial(share_plot, runs, *precise)
    html = page(f"Rationales: {task.dataset}", f"{task.about}\n{about}", sections)
    return Report(tables, pictures, lambda out: write_text(out / "rationales.html", html))


def page(title: str, about: str, sections: Sequence[Entries]) -> str:
    """A self-contained page of HTML."""
    template = Path(__file__).with_name("page.html.j2").read_text(encoding="utf-8")
    made = jinja2.Environment(autoescape=True, keep_trailing_newline=True).from_string(template)
    return str(made.render(title=title, about=about, sections=sections))


def _comparison(runs: Sequence[Run], task: ItemRationales | RankingRationales) -> Table:
    """The comparison of models, each of which reads its own rationale, everything and the rest; for
    questions, rationales beside whole titles and whole bodies (thesis Table 3.4).
    """
    of_items: Callable[[Run], pandas.Series]
    if isinstance(task, RankingRationales):
        said = (
            "Mean average precision in percent of the dev part, by which the epoch is chosen, and "
            "of the test part, and what percent of the words of its questions stand for them"
        )
        keys = {"MAP dev": "valid", "MAP test": "test", "words": "test_share"}
        of_items, what = partial(reciprocal_ranks, task.ranking), "the MRR"
    else:
        unit, number = task.unit, task.num_annotated("test")
        some = 0 < number < len(task.parts["test"])
        where = f" of the {number:,} {task.kind} with evidence" if some else ""
        said = (
            f"Test part: of the {unit} selected{where}, percent that say it (precision); percent "
            f"of all {unit} selected; {task.measure.title} with the rationale alone, with all "
            f"{unit}, and with all but the rationale, each read by the model itself"
        )
        keys = {"precision": "test_precision", "selected": "test_share"}
        keys |= {"rationale": "test", "full": "test_full", "rest": "test_rest"}
        of_items, what = minus_errors, "minus the error with the rationale alone"
    digits = task.measure.format(run.record["test"] for run in runs)
    own = {"test_precision": ".1f", "test_share": ".1f"}
    columns = {name: summary.measured(key, own.get(key, digits)) for name, key in keys.items()}
    columns["s/epoch"] = lambda group: f"{summary.mean_seconds(group):.1f}"
    caption = f"{task.about}\n{said}; {summary.seeds_text(runs)}"
    drawn = f"the test part and seeds, of {what}"
    return summary.model_table(caption, runs, columns, of_items, digits, drawn)


def minus_errors(run: Run) -> pandas.Series:
    """Minus the error of each test item, read from the rationale alone, by its position."""
    rows = run.predictions.query("part == 'test'").set_index("row")
    if "label" in rows:
        return -100.0 * (rows["label"] != rows["predicted"])
    return -((rows["y"] - rows["prediction"]) ** 2)


def _judge_table(out: Path, runs: Sequence[Run], task: ItemRationales) -> list[Table]:
    """The errors, on each model's selections, of the network that reads everything, if it exists.

    A run is read by the network of its own seed or, without one, by that of the first seed.
    """
    seeds = sorted(run.record["seed"] for run in runs if run.record["model"] == FULL)
    groups = [group for group in summary.by_model(runs) if group[0].record["model"] != FULL]
    if not seeds or not groups:
        return []
    paths = {seed: out / "runs" / f"{FULL}-seed{seed}" / BEST for seed in seeds}
    judges = {seed: load_finished(path, RationaleLearner) for seed, path in paths.items()}
    first, rows = judges[seeds[0]], []
    for group in groups:
        errors = [judge(judges.get(run.record["seed"], first), run, task) for run in group]
        digits = task.measure.format(error for pair in errors for error in pair)
        both = [summary.spread(column, digits) for column in zip(*errors, strict=True)]
        rows.append([group[0].record["model"], *both])
    caption = (
        f"Test part: {task.measure.title} of the network {FULL}, which has learned from whole "
        f"{task.kind}, on rationales alone and on all but them; {summary.seeds_text(runs)}"
    )
    return [Table(caption, ("rationales of", "rationale", "rest"), rows)]


@torch.no_grad()
def judge(learner: RationaleLearner, run: Run, task: ItemRationales) -> tuple[float, float]:
    """A network's errors on the rationales of a run and on the rest, for the test part."""
    lengths = task.lengths[task.parts["test"]].tolist()
    spans = run.predictions.query("part == 'test'")["selection"]
    chosen = map(read_spans, spans, lengths)
    answers: list[list[Tensor]] = [[], []]
    for batch in task.loader(task.parts["test"], BATCH):
        inputs = learner.net.inputs(batch)
        marks = torch.cat([next(chosen) for _ in range(len(batch.y))])
        for found, part in zip(answers, (marks, ~marks), strict=True):
            found.append(task.goal.answers(learner.net.answer(inputs, part)))
    right = task.right("test")
    rationale, rest = (task.goal.error(torch.cat(found), right) for found in answers)
    return rationale, rest


def _shown(runs: Sequence[Run]) -> list[tuple[str, pandas.DataFrame]]:
    """The name and the test predictions of one run of each model that does not read everything."""
    first = [group[0] for group in summary.by_model(runs)]
    shown = [run for run in first if run.record["kind"] not in READERS]
    names = [f"{run.record['model']} (seed {run.record['seed']})" for run in shown]
    tables = [run.predictions.query("part == 'test'") for run in shown]
    return list(zip(names, tables, strict=True))


def _examples(runs: Sequence[Run], task: ItemRationales) -> list[Examples]:
    """Some test items: for each model that selects, its answer, the item and its selection."""
    shown, places = _shown(runs), task.parts["test"].tolist()
    found: list[Examples] = []
    for row in _drawn(len(places)) if shown else ():
        found.append([])
        for name, table in shown:
            line = table.iloc[row]
            chosen = read_spans(line["selection"], int(task.lengths[places[row]]))
            found[-1].append((f"{name}: {_said(line)}", places[row], chosen))
    return found


def _queries(runs: Sequence[Run], task: RankingRationales) -> Iterator[Entries]:
    """Some queries of the test part, with the words that each selecting model takes from them."""
    shown, corpus, bodies = _shown(runs), task.data.corpus, task.data.has_bodies()
    rankings = task.data.rankings["test"]
    for place in _drawn(len(rankings)) if shown else ():
        question = corpus.questions[rankings[place].query]
        entries = [("title", Markup.escape(" ".join(question.title)))] if bodies else []
        words = question.body if bodies else question.title
        for name, table in shown:
            spans = table[table["query"] == question.id]["query_selection"].iloc[0]
            entries.append((name, marked_words(words, read_spans(spans, len(words)))))
        yield entries


def _drawn(number: int) -> list[int]:
    order = torch.randperm(number, generator=torch.Generator().manual_seed(SEED))
    return order[:EXAMPLES].tolist()


def drawings(examples: Sequence[Examples], task: MoleculeRationales) -> Figure:
    """Some molecules of the page, with the selection of each model that selects."""
    draw = partial(task.drawn, size=PIXELS, file_format="png")
    cells = [
        (name.replace(": ", "\n", 1), draw(place, chosen))
        for each in examples[:DRAWN]
        for name, place, chosen in each
    ]
    return picture_grid([cells[k : k + COLUMNS] for k in range(0, len(cells), COLUMNS)])


def _said(line: pandas.Series) -> str:
    """The answer from the rationale, and the right answer."""
    if "label" in line:
        return f"{line['predicted']}, right: {line['label']}"
    digits = number_format([line["prediction"], line["y"]])
    return f"{line['prediction']:{digits}}, right: {line['y']:{digits}}"


def learning_plot(runs: Sequence[Run]) -> Figure:
    """Cost of the validation part by epoch (thesis Figure 3-6). For models that learn to select,
    also the selected share and, if evidence is known, the precision.
    """
    groups = [group for group in summary.by_model(runs) if group[0].history]
    selecting = [group for group in groups if group[0].record["kind"] in SELECTING]
    known = {key for group in selecting for epoch in group[0].history for key in epoch}
    labels = {key: label for key, label in LABELS.items() if key in known or key == COST}
    figure, found = panels(len(labels), len(labels), (max(5.0 / len(labels), 3.4), 3.8))
    for (key, label), panel in zip(labels.items(), found, strict=True):
        for j, group in enumerate(groups):
            style: dict[str, Any] = {"color": f"C{j % 10}", "linewidth": 1.2}
            panel.plot([], [], label=group[0].record["model"], **style)
            for run in group if key == COST or group in selecting else ():
                epochs = pandas.DataFrame(run.history, columns=["epoch", key]).dropna()
                panel.plot(epochs["epoch"], epochs[key], **style)
        panel.set(xlabel="epoch", ylabel=label)
    if groups:
        found[0].legend(fontsize="small")
    figure.suptitle(f"{runs[0].record['dataset']}: learning rationales", fontsize="medium")
    return figure


def share_plot(runs: Sequence[Run], key: str, label: str) -> Figure:
    """A measure of the test part against the share selected (thesis Figures 3-4 and 3-5).

    A point is a model, over its seeds; points of one kind are joined. A model that reads everything
    is a horizontal line. For models that score words, precision is drawn at several shares.
    """
    table = pandas.DataFrame([run.record for run in runs]).dropna(subset=[key])
    figure, (axes,) = panels(1, 1, (6.4, 4.2))
    for j, (kind, rows) in enumerate(table.groupby("kind", sort=False)):
        models, color = rows.groupby("model"), f"C{j % 10}"
        points = models[key].agg(["mean", "std"]).assign(share=models["test_share"].mean())
        if key == "test_precision" and set(CURVE) <= set(rows.dropna(axis="columns")):
            points = rows[list(CURVE)].agg(["mean", "std"]).T
            points["share"] = [100 * share for share in CURVE.values()]
        points = points.sort_values("share").fillna(0.0)
        if kind in READERS:
            axes.axhline(points["mean"].iloc[0], color=color, linestyle=":", label=kind)
        else:
            style: dict[str, Any] = {"color": color, "marker": "o", "markersize": 4, "capsize": 2}
            axes.errorbar(points["share"], points["mean"], points["std"], label=kind, **style)
    axes.set(xlabel="percent selected", ylabel=label)
    axes.set_title(f"{runs[0].record['dataset']}, test part", fontsize="medium")
    axes.legend(fontsize="small")
    return figure


def explain(options: Any) -> None:
    """Writes the predictions of new texts, the words that they are made from, and a page."""
    out = Path(options.out)
    tables.free_folder(out, options.overwrite)
    tables.check_table(out / "rationales.csv", overwrite=True)
    learner = load_learner(options.checkpoint, RationaleLearner)
    reads = learner.net.config.inputs
    if reads != "texts":
        raise InputError(f"--checkpoint {options.checkpoint} reads {reads}, not texts")
    columns = list(options.text_column) or ["text"]
    table, texts = tables.texts_of(options.data, columns, options.encoding)
    tables.refuse_columns(table, ADDED, options.data)
    every = list(map(tokenize, texts))
    read = [words for words in every if words]
    if not read:
        raise InputError(f"no text of {options.data} has words")
    tables.tell_lines(table, [not words for words in every], "no words and no rationale")
    known = set(learner.hparams["words"])
    unknown = [bool(words) and known.isdisjoint(words) for words in every]
    tables.tell_lines(table, unknown, "no known word")
    added = rationales(learner, read, options.batch_size)
    added = added.set_index(table.index[[bool(words) for words in every]])
    shown = zip(added["predicted"], added["selection"], read, strict=True)
    sections = [
        [(str(said), marked_words(words, read_spans(spans, len(words))))]
        for said, spans, words in islice(shown, EXAMPLES)
    ]
    about = f"{options.checkpoint} on {options.data}\nMarked: selected words."
    tables.write_table(out / "rationales.csv", table.join(added))
    with naming_files(out):
        write_text(out / "rationales.html", page("Rationales", about, sections))
    say(f"rationales of {len(read)} texts in {out}")


@torch.inference_mode()
def rationales(
    learner: RationaleLearner, texts: Sequence[Sequence[str]], batch_size: int
) -> pandas.DataFrame:
    """For each text, a list of words: the prediction from each reading, and the selection."""
    learner.longest, classes = max(map(len, texts)), learner.hparams["classes"]
    loader = tables.batches_of(learner, texts, batch_size)
    found = torch.cat([learner.predict_step(batch, k) for k, batch in enumerate(loader)])
    answers = found[:, : len(READINGS)].t().tolist()
    table = {
        name: [classes[int(answer)] for answer in column] if classes else column
        for name, column in zip(ANSWERS, answers, strict=True)
    }
    rows = found[:, len(READINGS) :] >= SELECTED
    chosen = [row[: len(words)] for row, words in zip(rows, texts, strict=True)]
    table["selection"] = list(map(spans_text, chosen))
    table["words"] = [" ".join(compress(words, c)) for words, c in zip(texts, chosen, strict=True)]
    return pandas.DataFrame(table)
