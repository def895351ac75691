"""Initial values, sizes, activations and repr of the recurrent convolution."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pyg_kernels.sequence import RCNN, RCNNProductState, RCNNState, RCNNTableState
from tests.sequence.rcnn_equations import random_rcnn
from tests.sequence.rcnn_variants import MAX, ONE_WAY, build
from tests.sequence.texts import SIZE, random_text


def test_repr() -> None:
    text = repr(RCNN(3, 4, order=3, combine="add", decay="input", num_layers=2, pooling="sum"))
    for part in ["order=3", "combine='add'", "decay='input'", "num_layers=2"]:
        assert part in text or part.replace("'", "") in text


def test_initial_values() -> None:
    """Thesis, appendix B.1: rows of unit variance, uniform in ±√(3 / inputs); the bias is 0."""
    torch.manual_seed(0)
    for size in [12, 300]:
        cell = RCNN(size, 200, order=3).cells[0]
        bound = (3 / size) ** 0.5
        for lin in cell.lins:
            assert lin.bias is None and lin.weight.shape == (200, size)
            assert lin.weight.abs().max() <= bound
            assert lin.weight.abs().max() > 0.98 * bound
            variance = lin.weight.square().sum(dim=1)  # of a row's product with white input
            assert abs(variance.mean().item() - 1) < 0.05
        assert (cell.bias == 0).all()
        a, b, _ = (lin.weight for lin in cell.lins)
        assert not torch.equal(a, b)


def test_states() -> None:
    """One type for each kind of pooling."""
    x = random_text(5, 2, SIZE)
    for name, options in ONE_WAY.items():
        expected: type = RCNNState
        if name in MAX:
            expected = RCNNTableState if options.get("combine") == "add" else RCNNProductState
        assert type(build(options)(x)[1]) is expected


@pytest.mark.parametrize("extension", ["output_map", "output_gate", "highway", "bias"])
def test_extensions_build_their_parameters_only_on_request(extension: str) -> None:
    names = {
        "output_map": ["output_lin"],
        "output_gate": ["output_gate_lin", "output_gate_bias", "output_gate_recurrent"],
        "highway": ["highway_lin", "highway_bias"],
        "bias": ["bias"],
    }[extension]
    off = random_rcnn(SIZE, SIZE, decay="recurrent", **{extension: False})
    on = random_rcnn(SIZE, SIZE, decay="recurrent", **{extension: True})
    keys = {k.removeprefix("cells.0.").removesuffix(".weight") for k in on.state_dict()}
    missing = {k.removeprefix("cells.0.").removesuffix(".weight") for k in off.state_dict()}
    assert keys - missing == set(names)


def test_output_gate_reads_the_output_only_where_the_decay_does() -> None:
    plain = random_rcnn(SIZE, SIZE, decay="input", output_gate=True).state_dict()
    assert not any("recurrent" in key for key in plain)
    recurrent = random_rcnn(SIZE, 3, decay="recurrent", output_gate=True).cells[0]
    assert recurrent.output_gate_lin.weight.shape == (3, SIZE)
    assert recurrent.output_gate_bias.shape == (3,)
    assert recurrent.output_gate_recurrent.weight.shape == (3, 3)


def test_gates_keep_their_biases_without_bias() -> None:
    """`bias` is the one before the activation alone."""
    options: dict[str, Any] = {"decay": "recurrent", "output_gate": True, "highway": True}
    keys = random_rcnn(SIZE, SIZE, bias=False, **options).state_dict()
    found = {k for k in keys if k.endswith("bias")}
    assert found == {f"cells.0.{gate}_bias" for gate in ["decay", "output_gate", "highway"]}
