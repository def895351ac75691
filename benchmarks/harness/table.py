"""A table as plain text and as Markdown, and the number of digits of its numbers."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A caption and rows of text under a header."""

    caption: str  # a description of the numbers
    header: Sequence[str]  # column names
    rows: Sequence[Sequence[str]]  # cells

    def text(self) -> str:
        """Plain columns: the first aligned to the left, the others to the right."""
        lines = [[one_line(cell) for cell in line] for line in (self.header, *self.rows)]
        widths = [max(len(line[k]) for line in lines) for k in range(len(self.header))]

        def row(cells: Sequence[str]) -> str:
            rest = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
            return "  ".join([cells[0].ljust(widths[0]), *rest])

        rule = "  ".join("-" * width for width in widths)
        return "\n".join([self.caption, "", row(lines[0]), rule, *map(row, lines[1:])])

    def markdown(self) -> str:
        escaped = r"\|"
        rule = [":--", *["--:"] * (len(self.header) - 1)]
        lines = [
            f"| {' | '.join(one_line(cell).replace('|', escaped) for cell in cells)} |"
            for cells in (self.header, rule, *self.rows)
        ]
        return "\n".join([self.caption, "", *lines])


def one_line(text: str) -> str:
    """The text with each run of white space, including line breaks, replaced by one space."""
    return " ".join(text.split())


def number_format(values: Iterable[float]) -> str:
    """One format for numbers that are shown together, such as ``'.3f'``.

    It has three decimals, or more if the largest number needs them for three significant digits.
    Below 1e-6 and from 1e6 on it has powers of ten.
    """
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    exponent = math.floor(math.log10(max(sizes, default=1.0)))
    return f".{max(3, 2 - exponent)}f" if -6 <= exponent < 6 else ".3e"
