"""The README's example runs as printed, and its text fits in short lines."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch_geometric.data import Batch, Data

README = Path(__file__).parent.parent / "README.md"


def test_example() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)
    names: dict[str, object] = {}
    exec(code, names)
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


def test_nothing_is_left_to_fill_in() -> None:
    assert "@@" not in README.read_text()
    for page in (README.parent / "docs").rglob("*.rst"):
        assert "@@" not in page.read_text(), page
