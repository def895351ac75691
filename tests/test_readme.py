"""The examples of the README and of the documentation's first page run as printed, and nothing in
the texts is left to fill in."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch_geometric.data import Batch, Data

from tests.pages import code_blocks

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def run(codes: list[str]) -> list[dict[str, object]]:
    """What each example defines."""
    found = []
    for code in codes:
        names: dict[str, object] = {}
        exec(code, names)
        found.append(names)
    return found


def test_readme() -> None:
    names, kernels = run(re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S))
    graphs = [
        Data(
            x=torch.randn(n, 5),
            edge_index=torch.randint(n, (2, 2 * n)),
            edge_attr=torch.randn(2 * n, 3),
        )
        for n in (4, 1, 7)
    ]
    model = names["Net"](edge_dim=3)  # type: ignore[operator]
    out = model(Batch.from_data_list(graphs))
    assert out.shape == (3, 1)
    out.sum().backward()
    assert list(kernels["guess"]) == [1, 0]  # type: ignore[call-overload]


def test_first_page() -> None:
    molecules, texts = run(code_blocks("index.rst")[1:])  # the first: test_graph_training.py
    mean, std, low, high = (molecules[name] for name in ("mean", "std", "low", "high"))
    assert mean.shape == std.shape == (1,)  # type: ignore[attr-defined]
    assert low < mean < high  # type: ignore[operator]
    assert molecules["shares"].shape == (5,)  # type: ignore[attr-defined]
    output, h, c = texts["output"], texts["h"], texts["c"]
    assert isinstance(output, torch.Tensor) and output.shape == (35, 20, 200)
    assert isinstance(h, torch.Tensor) and torch.equal(h[0], output[-1])
    assert isinstance(c, torch.Tensor) and c.shape == (1, 20, 2, 200)
    assert texts["scores"].shape == (20, 2)  # type: ignore[attr-defined]


def test_nothing_is_left_to_fill_in() -> None:
    assert "@@" not in README.read_text()
    for page in (ROOT / "docs").rglob("*.rst"):
        assert "@@" not in page.read_text(), page
