"""The report as Markdown, its pictures beside it."""

import re
from collections.abc import Iterator, Sequence

from benchmarks.harness.molecules.gathering.comparison import BEST, NEAR, NEAR_SIGN, Comparison
from benchmarks.harness.molecules.gathering.contents import Contents, SectionContents
from benchmarks.harness.table import Table, one_line

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#!$~&])")


def markdown(contents: Contents) -> str:
    """The text of ``report.md``.

    Args:
        contents: What the report says.
    """
    blocks = [f"# {escaped(contents.title)}", escaped(contents.summary)]
    if contents.left_out:
        blocks += ["Left out:", _list(contents.left_out)]
    for section in contents.sections:
        blocks += _section(section)
    return "\n\n".join(blocks) + "\n"


def escaped(text: str) -> str:
    """One line in which no letter has a meaning; for a cell of a table a bar still has."""
    return SPECIAL.sub(r"\\\1", one_line(text))


def marked_table(comparison: Comparison) -> Table:
    """The table with the best in bold and the near ones signed."""
    table = comparison.table
    rows = []
    for line, mark in zip(table.rows, comparison.marks, strict=True):
        cells = [escaped(cell) for cell in line]
        text = cells[comparison.marked]
        signed = {BEST: f"**{text}**", NEAR: f"{text} {NEAR_SIGN}"}
        cells[comparison.marked] = signed.get(mark, text)
        rows.append(cells)
    return Table(escaped(table.caption), [escaped(name) for name in table.header], rows)


def _section(section: SectionContents) -> Iterator[str]:
    yield f"## {escaped(section.title)}"
    yield from (escaped(remark) for remark in section.remarks)
    yield marked_table(section.comparison).markdown()
    yield escaped(section.comparison.legend)
    for picture in section.pictures:
        yield f"![{escaped(picture.description)}]({picture.file})"
    yield "### Provenance"
    for name, facts in section.provenance:
        yield f"**{escaped(name)}**"
        yield _list([f"{fact}: {value}" for fact, value in facts])


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {escaped(line)}" for line in lines)
