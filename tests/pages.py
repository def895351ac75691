"""The Python of a page of the documentation."""

from itertools import takewhile
from pathlib import Path
from textwrap import dedent
from typing import Any

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


def run(*blocks: str) -> dict[str, Any]:
    """The names that are left after the blocks, one after the other."""
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    return names
