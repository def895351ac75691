"""A page of texts or molecules of the test part with their rationales in colour."""

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

from benchmarks.harness.figures import picture_grid
from benchmarks.harness.rationale.names import EXAMPLES, FULL
from benchmarks.harness.rationale.spans import read_spans
from benchmarks.harness.summary import by_model
from benchmarks.harness.table import number_format
from benchmarks.harness.training import Run

if TYPE_CHECKING:
    from benchmarks.harness.rationale.task import RationaleTask

STYLE = """\
body { font-family: sans-serif; max-width: 62rem; margin: 2rem auto; line-height: 1.5 }
mark { background: #ffd54d; padding: 0 1px }
u { text-decoration-color: #2266cc; text-decoration-thickness: 2px }
dt { color: #555; margin-top: 0.6rem }
dd { margin: 0 0 0 1rem }
section { border-top: 1px solid #ccc; padding: 0.6rem 0 }
"""
DRAWN = 6  # molecules of the picture
COLUMNS = 3
SEED = 0  # of the choice of examples


def rationale_page(runs: Sequence[Run], task: "RationaleTask") -> str:
    """Some items of the test part, each with the rationales of one run of every model that selects.

    Selected words or atoms are marked, evidence is underlined where it is known.

    Args:
        runs: Finished runs, model by model.
        task: What was learned.

    Returns:
        A whole page of HTML that needs nothing besides itself.
    """
    parts = [
        section(
            [
                (one.title, task.data.marked(place, one.chosen, task.data.evidence[place]))
                for one in examples
            ]
        )
        for place, examples in _examples(runs, task, EXAMPLES)
    ]
    about = [task.data.describe(), f"Marked: selected {task.data.unit}."]
    if any(marks is not None for marks in task.data.evidence):
        about.append("Underlined: those that say it.")
    return page(f"Rationales: {task.dataset}", about, parts)


def drawings(runs: Sequence[Run], task: "RationaleTask") -> Figure | None:
    """Some molecules of the page, a row each, a column for each model that selects.

    Args:
        runs: Finished runs, model by model.
        task: What was learned.

    Returns:
        ``None`` where there is nothing to draw.
    """
    cells = [
        [(one.title.replace(": ", "\n", 1), task.data.picture(place, one.chosen)) for one in found]
        for place, found in _examples(runs, task, DRAWN)
    ]
    drawn = [[(title, found) for title, found in row if found is not None] for row in cells]
    if not any(drawn):
        return None
    if len(drawn[0]) == 1:
        flat = [cell for row in drawn for cell in row]
        drawn = [flat[k : k + COLUMNS] for k in range(0, len(flat), COLUMNS)]
    return picture_grid(drawn)


class _Example(NamedTuple):
    title: str
    chosen: Tensor


def _examples(
    runs: Sequence[Run], task: "RationaleTask", most: int
) -> list[tuple[int, list[_Example]]]:
    """Some items of the test part, each with what one run of every model that selects takes."""
    shown = [group[0] for group in by_model(runs) if group[0].record["kind"] != FULL]
    if not shown:
        return []
    tables = [run.predictions[run.predictions["part"] == "test"] for run in shown]
    number = len(tables[0])
    order = torch.randperm(number, generator=torch.Generator().manual_seed(SEED))
    found = []
    for row in order[:most].tolist():
        place = int(tables[0]["row"].iloc[row])
        examples = []
        for run, table in zip(shown, tables, strict=True):
            line = table.iloc[row].to_dict()
            chosen = read_spans(str(line["selection"]), int(task.data.lengths[place]))
            name = f"{run.record['model']} (seed {run.record['seed']})"
            examples.append(_Example(f"{name}: {_said(line)}", chosen))
        found.append((place, examples))
    return found


def page(title: str, about: Sequence[str], sections: Sequence[str]) -> str:
    """A page of HTML of some sections under a title and lines on what they are."""
    lines = "".join(f"<p>{html.escape(line)}</p>\n" for text in about for line in text.splitlines())
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title>\n<style>\n{STYLE}</style></head>\n<body>\n"
        f"<h1>{html.escape(title)}</h1>\n{lines}{''.join(sections)}</body>\n</html>\n"
    )


def marked_words(words: Sequence[str], chosen: Tensor, evidence: Tensor | None = None) -> str:
    """Words as HTML, runs of selected ones marked, runs of evidence underlined."""
    known = torch.zeros(len(words), dtype=torch.bool) if evidence is None else evidence
    found: list[str] = []
    state = (False, False)
    for place, now in enumerate(zip(chosen.tolist(), known.tolist(), strict=True)):
        ends, begins = ("", "") if now == state else (_closing(state), _opening(now))
        found.append(f"{ends}{' ' if place else ''}{begins}{html.escape(words[place])}")
        state = now
    return "".join([*found, _closing(state)])


def _opening(state: tuple[bool, bool]) -> str:
    return "<mark>" * state[0] + "<u>" * state[1]


def _closing(state: tuple[bool, bool]) -> str:
    return "</u>" * state[1] + "</mark>" * state[0]


def section(entries: Sequence[tuple[str, str]]) -> str:
    """One item: names, and the HTML of each."""
    items = "".join(
        f"<dt>{html.escape(name)}</dt>\n<dd>{content}</dd>\n" for name, content in entries
    )
    return f"<section><dl>\n{items}</dl></section>\n"


def _said(line: dict[str, object]) -> str:
    """What is right, and what is said from the rationale."""
    if "label" in line:
        return f"{line['predicted']}, right: {line['label']}"
    numbers = [float(str(line[key])) for key in ("prediction", "y")]
    digits = number_format(numbers)
    return f"{numbers[0]:{digits}}, right: {numbers[1]:{digits}}"
