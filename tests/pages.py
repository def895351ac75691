"""The Python of a page of the documentation."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from textwrap import dedent

DOCS = Path(__file__).parent.parent / "docs"


def code_blocks(page: str) -> list[str]:
    """The blocks of a page, in their order; those in tables, too."""
    lines, found = (DOCS / page).read_text().splitlines(), []
    for number, line in enumerate(lines):
        if line.lstrip(" -*").startswith(".. code-block:: python"):
            column = line.index("..")
            inside = takewhile(lambda row, c=column: not row[: c + 1].strip(), lines[number + 1 :])
            found.append(dedent("\n".join(inside)).strip() + "\n")
    return found
