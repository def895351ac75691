"""The examples of the README and of the documentation's first page run as printed, and nothing in
the texts is left to fill in."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from tests.pages import code_blocks, run

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def test_readme() -> None:
    """The second example; the first, a network, trains in conventions/test_graph_training.py."""
    _, kernels = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)
    assert list(run(kernels)["guess"]) == [1, 0]


def test_first_page() -> None:
    molecules, texts = map(run, code_blocks("index.rst")[1:])  # the first trains there, too
    assert molecules["mean"].shape == molecules["std"].shape == (1,)
    assert molecules["low"] < molecules["mean"] < molecules["high"]
    assert molecules["shares"].shape == (5,)
    output, h, c = (texts[name] for name in ("output", "h", "c"))
    assert output.shape == (35, 20, 200) and torch.equal(h[0], output[-1])
    assert c.shape == (1, 20, 2, 200) and texts["scores"].shape == (20, 2)


def test_nothing_is_left_to_fill_in() -> None:
    assert "@@" not in README.read_text()
    for page in (ROOT / "docs").rglob("*.rst"):
        assert "@@" not in page.read_text(), page
