"""Reads and runs the Python code of a documentation page."""

from itertools import takewhile
from pathlib import Path
from textwrap import dedent
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"


def code_blocks(page: str) -> list[str]:
    """The code blocks of a page in their order, including those in tables."""
    lines, found = (DOCS / page).read_text().splitlines(), []
    for number, line in enumerate(lines):
        if line.lstrip(" -*").startswith(".. code-block:: python"):
            column = line.index("..")
            inside = takewhile(lambda row, c=column: not row[: c + 1].strip(), lines[number + 1 :])
            found.append(dedent("\n".join(inside)).strip() + "\n")
    return found


def run(*blocks: str) -> dict[str, Any]:
    """Runs the blocks one after the other and returns the names that they have defined."""
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    return names
