"""The README's examples run as printed, and nothing in the texts is left to fill in."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch_geometric.data import Batch, Data

from pyg_kernels.sequence import RKMState

README = Path(__file__).parent.parent / "README.md"


def examples() -> list[dict[str, object]]:
    """What each example defines."""
    found = []
    for code in re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S):
        names: dict[str, object] = {}
        exec(code, names)
        found.append(names)
    return found


def test_examples() -> None:
    names, texts, activations, molecules, reasons, kernels = examples()
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
    prediction, walks = reasons["prediction"], reasons["walks"]
    assert prediction.shape == () and len(walks) == 4  # type: ignore[attr-defined, arg-type]
    output, h, c = texts["output"], texts["h"], texts["c"]
    assert isinstance(output, torch.Tensor) and output.shape == (35, 20, 200)
    assert isinstance(h, torch.Tensor) and torch.equal(h[0], output[-1])
    assert isinstance(c, torch.Tensor) and c.shape == (1, 20, 2, 200)
    y, state = texts["y"], texts["state"]
    assert isinstance(y, torch.Tensor) and y.shape == (35, 20, 200)
    assert isinstance(state, RKMState) and torch.equal(state.h[0], y[-1])
    assert state.h.shape == state.c.shape == (1, 20, 200)
    a, output, h = (activations[name] for name in ("a", "output", "h"))
    assert isinstance(a, torch.Tensor) and a.shape == (1000, 64)
    assert isinstance(output, torch.Tensor) and output.shape == (35, 20, 200)
    assert isinstance(h, torch.Tensor) and torch.equal(h[0], output[-1])
    mean, std = molecules["mean"], molecules["std"]
    assert mean.shape == std.shape == (1,)  # type: ignore[attr-defined]
    assert list(kernels["guess"]) == [1, 0]  # type: ignore[call-overload]


def test_nothing_is_left_to_fill_in() -> None:
    assert "@@" not in README.read_text()
    for page in (README.parent / "docs").rglob("*.rst"):
        assert "@@" not in page.read_text(), page
