"""What a report says, whichever form it is written in."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.molecules.gathering.comparison import Comparison, compare, ordered
from benchmarks.harness.molecules.gathering.folders import Findings
from benchmarks.harness.molecules.gathering.pictures import (
    Picture,
    section_pictures,
    section_predictions,
    target_names,
)
from benchmarks.harness.molecules.gathering.provenance import described
from benchmarks.harness.molecules.gathering.sections import Section, sections
from benchmarks.harness.table import one_line

MOST_NAMES = 10


@dataclass(frozen=True)
class SectionContents:
    """A section of the report.

    Args:
        title (str): Data set and split.
        remarks: A sentence each.
        comparison: Its table.
        pictures: In order.
        provenance: For each results folder its name, and names and values of what is known of it.
    """

    title: str
    remarks: list[str]
    comparison: Comparison
    pictures: list[Picture]
    provenance: list[tuple[str, list[tuple[str, str]]]]


@dataclass(frozen=True)
class Contents:
    """A report.

    Args:
        title (str): Of the whole.
        summary (str): What was found.
        left_out: What was damaged, a line each.
        sections: By title.
    """

    title: str
    summary: str
    left_out: list[str]
    sections: list[SectionContents]


def contents(root: Path, findings: Findings) -> Contents:
    """Puts together what a report on some results folders says.

    Args:
        root (Path): The folder that was searched.
        findings: What was found; predictions that cannot be read are noted there.
    """
    parts = [_section_contents(section, findings) for section in sections(findings.folders)]
    title = f"Molecule benchmark: {one_line(root.resolve().name)}"
    return Contents(title, summary(findings), findings.damage, parts)


def summary(findings: Findings) -> str:
    """What was found, in a line."""
    finished = sum(len(folder.runs) for folder in findings.folders)
    unfinished = [
        f"{folder.name}/{name}" for folder in findings.folders for name in folder.unfinished
    ]
    text = f"{counted(len(findings.folders), 'results folder')}, "
    text += f"{counted(finished, 'finished run')}, {len(unfinished)} unfinished"
    if unfinished:
        text += f" ({', '.join(_shortened(unfinished))})"
    if findings.others:
        text += f"; {counted(findings.others, 'results folder')} of other benchmarks not read"
    return f"{text}."


def _section_contents(section: Section, findings: Findings) -> SectionContents:
    rows = ordered(section.rows, section.metric)
    predictions = section_predictions(section, rows, findings)
    comparison = compare(section, rows, target_names(predictions))
    return SectionContents(
        section.title,
        section.remarks,
        comparison,
        section_pictures(section, rows, predictions),
        [(folder.name, described(folder)) for folder in section.folders],
    )


def counted(number: int, what: str) -> str:
    """A number of things, such as ``'2 runs'``."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def _shortened(names: Sequence[str]) -> list[str]:
    more = len(names) - MOST_NAMES
    return [*names[:MOST_NAMES], f"and {more} more"] if more > 0 else list(names)
