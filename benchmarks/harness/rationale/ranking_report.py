"""The table, the pictures and the page of ranking by some words of each question."""

from collections.abc import Sequence
from pathlib import Path

import torch
from matplotlib.figure import Figure

from benchmarks.harness.files import write_bytes, write_text
from benchmarks.harness.rationale.names import EXAMPLES, SELECTING, TITLE
from benchmarks.harness.rationale.page import marked_words, page, section
from benchmarks.harness.rationale.pictures import learning_plot, share_plot
from benchmarks.harness.rationale.ranking_task import RankingRationales
from benchmarks.harness.rationale.spans import read_spans
from benchmarks.harness.retrieval.report import describe
from benchmarks.harness.summary import by_model, mean_seconds, png, seeds_text, spread
from benchmarks.harness.table import Table
from benchmarks.harness.training import Run

DIGITS = ".1f"
SEED = 0  # of the choice of examples


def table(runs: Sequence[Run], task: RankingRationales) -> Table:
    """Rationales beside whole titles and whole bodies: thesis Table 3.4.

    Args:
        runs: Finished runs, model by model.
        task: What was learned.
    """
    rows = []
    for group in by_model(runs):
        records = [run.record for run in group]
        rows.append(
            [
                _named(records[0], task),
                f"{records[0]['num_parameters']:,}",
                *(spread([r[key] for r in records], DIGITS) for key in ("valid", "test")),
                spread([r["test_share"] for r in records], DIGITS),
                f"{mean_seconds(group):.1f}",
            ]
        )
    caption = (
        f"{describe(task.data)}\n"
        "Mean average precision in percent of the dev part, by which the epoch is chosen, and of "
        "the test part, and what percent of the words of its questions stand for them; "
        f"{seeds_text(runs)}"
    )
    header = ("model", "parameters", "MAP dev", "MAP test", "words", "s/epoch")
    return Table(caption, header, rows)


def write_ranking_report(out: Path, runs: Sequence[Run], task: RankingRationales) -> None:
    """Writes ``table.md``, ``rationales.html`` and the pictures.

    Args:
        out (Path): The results folder.
        runs: Finished runs, model by model.
        task: What was learned.
    """
    write_text(out / "table.md", f"{table(runs, task).markdown()}\n")
    write_text(out / "rationales.html", ranking_page(runs, task))
    write_bytes(out / "learning_curves.png", png(learning_plot(runs, task.dataset)))
    write_bytes(out / "error_by_share.png", png(_share_plot(runs, task)))


def ranking_page(runs: Sequence[Run], task: RankingRationales) -> str:
    """Some queries of the test part with what is selected by one run of each model that selects.

    Args:
        runs: Finished runs, model by model.
        task: What was learned.
    """
    shown = [group[0] for group in by_model(runs) if group[0].record["kind"] in SELECTING]
    corpus, sections = task.data.corpus, []
    names = [corpus.questions[ranking.query].id for ranking in task.data.rankings["test"]]
    order = torch.randperm(len(names), generator=torch.Generator().manual_seed(SEED))
    for place in order[:EXAMPLES].tolist() if shown else ():
        question = corpus.questions[corpus.position[names[place]]]
        entries = [("title", " ".join(question.title))] if task.data.has_bodies() else []
        for run in shown:
            rows = run.predictions
            rows = rows[(rows["part"] == "test") & (rows["query"] == question.id)]
            words = question.title if run.record["fields"] == TITLE else question.body
            chosen = read_spans(str(rows["query_selection"].iloc[0]), len(words))
            name = f"{run.record['model']} (seed {run.record['seed']})"
            entries.append((name, marked_words(words, chosen)))
        sections.append(section(entries))
    about = [describe(task.data), "Marked: the words that stand for the question."]
    return page(f"Rationales: {task.dataset}", about, sections)


def _share_plot(runs: Sequence[Run], task: RankingRationales) -> Figure:
    """MAP against the share of words (thesis Figure 3-8)."""
    return share_plot(runs, "MAP in percent, test part", task.dataset, SELECTING)


def _named(record: dict[str, object], task: RankingRationales) -> str:
    """A model, and what it reads where that differs between models."""
    if not task.data.has_bodies() or record["kind"] in SELECTING:
        return str(record["model"])
    return f"{record['model']} ({record['fields']})"
