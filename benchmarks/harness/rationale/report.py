"""The tables, pictures and pages of an experiment on rationales."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.files import write_bytes, write_text
from benchmarks.harness.rationale.judge import judge_table
from benchmarks.harness.rationale.page import drawings, rationale_page
from benchmarks.harness.rationale.pictures import learning_plot, precision_plot, share_plot
from benchmarks.harness.rationale.task import RationaleTask
from benchmarks.harness.summary import (
    by_model,
    mean_seconds,
    png,
    seeds_text,
    spread,
    spread_or_dash,
)
from benchmarks.harness.table import Table
from benchmarks.harness.training import Run

COLUMNS = ("precision", "selected", "rationale", "full", "rest")


def tables(out: Path, runs: Sequence[Run], task: RationaleTask) -> list[Table]:
    """The comparison of models and, where there is one that reads all, what it reads of the others.

    Args:
        out (Path): The results folder, with the checkpoints.
        runs: Finished runs, model by model.
        task: What was learned.
    """
    judged = judge_table(out, runs, task)
    return [_comparison(runs, task), *([] if judged is None else [judged])]


def _comparison(runs: Sequence[Run], task: RationaleTask) -> Table:
    digits = task.measure.format(run.record["test_full"] for run in runs)
    rows = []
    for group in by_model(runs):
        records = [run.record for run in group]
        rows.append(
            [
                records[0]["model"],
                f"{records[0]['num_parameters']:,}",
                spread_or_dash([r.get("test_precision") for r in records], ".1f"),
                spread([r["test_share"] for r in records], ".1f"),
                *(
                    spread([r[key] for r in records], digits)
                    for key in ("test", "test_full", "test_rest")
                ),
                f"{mean_seconds(group):.1f}",
            ]
        )
    unit = task.data.unit
    caption = (
        f"{task.data.describe()}\n"
        f"Test part: of the {unit} selected, percent that say it (precision); percent of all {unit}"
        f" selected; {task.measure.title} with the rationale alone, with all {unit}, and with all "
        f"but the rationale, each read by the model itself; {seeds_text(runs)}"
    )
    return Table(caption, ("model", "parameters", *COLUMNS, "s/epoch"), rows)


def write_report(out: Path, runs: Sequence[Run], task: RationaleTask) -> None:
    """Writes ``table.md``, ``rationales.html`` and the pictures, of molecules also drawings.

    Args:
        out (Path): The results folder.
        runs: Finished runs, model by model.
        task: What was learned.
    """
    written = "\n\n".join(table.markdown() for table in tables(out, runs, task))
    write_text(out / "table.md", f"{written}\n")
    write_text(out / "rationales.html", rationale_page(runs, task))
    write_bytes(out / "learning_curves.png", png(learning_plot(runs, task.dataset)))
    label = f"{task.measure.title}, rationale alone"
    write_bytes(out / "error_by_share.png", png(share_plot(runs, label, task.dataset)))
    if figure := drawings(runs, task):
        write_bytes(out / "rationales.png", png(figure))
    if any("test_precision" in run.record for run in runs):
        write_bytes(out / "precision_by_share.png", png(precision_plot(runs, task.dataset)))
