"""Where the layers equal torch's own: the 1-gram LSTM, and networks of known activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from pyg_kernels.nn import KernelActivation
from pyg_kernels.sequence import KBRN, RCNN, RKM
from tests.sequence.equations import assert_equations
from tests.sequence.kbrn import FAMILY
from tests.sequence.texts import F64, SIZE, assert_close, close, gradients, random_text, texts
from tests.sequence.variants import Variant

HIDDEN = FAMILY.hidden_size
ROWS = ["input", "forget", "candidate", "output"]  # as nn.LSTM stacks them
STACKS: dict[str, dict[str, Any]] = {
    "no-bias": {"bias": False},
    "batch-first": {"batch_first": True},
    "stack": {"num_layers": 3},
    "both-ways-stack": {"bidirectional": True, "num_layers": 2},
}
Pair = tuple[Any, Any]


def counterparts(theirs: nn.RNNBase, ours: Any) -> dict[str, list[Tensor]]:
    """Our parameters that correspond to each of theirs; one bias corresponds to two of theirs."""
    found = {}
    for name, _ in theirs.named_parameters():
        kind, place = name.split("_l", 1)
        cell = ours.cells[int(place[0]) * (1 + theirs.bidirectional) + place.endswith("reverse")]
        if isinstance(theirs, nn.LSTM):
            maps = {"weight_ih": cell.filters, "weight_hh": cell.recurrent}.get(kind)
            found[name] = [cell.biases[g] if maps is None else maps[g].weight for g in ROWS]
        else:
            lin = cell.lin_recurrent if kind == "weight_hh" else cell.lin_input
            found[name] = [lin.bias if kind.startswith("bias") else lin.weight]
    return found


def lstms(**stack: Any) -> Pair:
    """An nn.LSTM and the machine made from it."""
    torch.manual_seed(0)
    lstm = nn.LSTM(SIZE, HIDDEN, **stack).double()
    for parameter in lstm.parameters():
        nn.init.normal_(parameter, std=0.5)
    return lstm, RKM.from_lstm(lstm)


def rnns(**stack: Any) -> Pair:
    """An nn.RNN of rectifiers, and a network whose functions are initialised as rectifiers."""
    torch.manual_seed(0)
    of_relu = {"green": "abs", "num_centers": 41, "init": "relu", "affine": True}
    rnn = nn.RNN(SIZE, HIDDEN, nonlinearity="relu", dtype=F64, **stack)
    kbrn = KBRN(SIZE, HIDDEN, normalize=False, dtype=F64, **of_relu, **stack)
    with torch.no_grad():
        for name, (ours,) in counterparts(rnn, kbrn).items():
            theirs = rnn.get_parameter(name)
            ours.copy_(ours + theirs if name.startswith("bias_hh") else theirs)
    return rnn, kbrn


def outputs_of(layer: nn.Module, x: Any, state: Any) -> list[Tensor]:
    output, last = layer(x, state)
    ends = [last] if isinstance(last, Tensor) else list(last)
    return [output.data if isinstance(output, PackedSequence) else output, *ends]


def assert_same_layer(pair: Pair, x: Any, leaf: Tensor, state: list[Tensor]) -> None:
    """Compares outputs, final states and all gradients."""
    theirs, ours = pair
    given = (state[0] if len(state) == 1 else tuple(state)) if state else None
    expected, found = (outputs_of(layer, x, given) for layer in (theirs, ours))
    assert_close(found, expected, ["output", "h", "c"][: len(expected)])
    inputs = [leaf, *state]
    wanted = gradients(expected, [*inputs, *theirs.parameters()])
    got = gradients(found, inputs)
    for group in counterparts(theirs, ours).values():
        parts = gradients(found, group)
        got.append(torch.cat([p.flatten(1) if p.dim() > 1 else p for p in parts]))
    names = [f"input {i}" for i in range(len(inputs))] + [n for n, _ in theirs.named_parameters()]
    assert_close(got, wanted, names)


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
@pytest.mark.parametrize("pair_of", [lstms, rnns])
def test_same(pair_of: Callable[..., Pair], stack: dict[str, Any]) -> None:
    """For batches, one text and packed texts, with and without an initial state."""
    pair = pair_of(**stack)
    theirs, rows = pair[0], len(pair[1].cells)
    x, alone = random_text(7, 4, SIZE).requires_grad_(), random_text(6, SIZE).requires_grad_()
    ragged = torch.cat(texts(3, 6, 1, 4)).requires_grad_()
    packed = pack_sequence(list(ragged.split([3, 6, 1, 4])), enforce_sorted=False)
    batch = (7 if theirs.batch_first else 4,)
    for text, leaf, count in [(x, x, batch), (alone, alone, ()), (packed, ragged, (4,))]:
        assert_same_layer(pair, text, leaf, [])
        if not theirs.bidirectional:
            shape = (rows, *count, HIDDEN)
            states = [random_text(*shape, seed=s).requires_grad_() for s in (1, 2)]
            assert_same_layer(pair, text, leaf, states[: 1 + isinstance(theirs, nn.LSTM)])


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_what_from_lstm_keeps(stack: dict[str, Any]) -> None:
    lstm, _ = lstms(**stack, dropout=0.5 * ("num_layers" in stack))
    rkm, x = RKM.from_lstm(lstm.eval()), random_text(5, 2, SIZE)
    sizes = ["input_size", "hidden_size", "num_layers", "batch_first", "bidirectional", "dropout"]
    for size in [*sizes, "training"]:
        assert getattr(rkm, size) == getattr(lstm, size)
    expected = lstm(x)[0]
    with torch.no_grad():  # copied, not shared
        for parameter in rkm.parameters():
            parameter.zero_()
    close(lstm(x)[0], expected)
    assert {p.dtype for p in RKM.from_lstm(lstm.float()).parameters()} == {torch.float32}


def test_what_is_no_lstm() -> None:
    with pytest.raises(ValueError, match="proj_size"):
        RKM.from_lstm(nn.LSTM(3, 5, proj_size=2))
    with pytest.raises(TypeError, match=r"GRU: expected a torch\.nn\.LSTM"):
        RKM.from_lstm(nn.GRU(3, 4))  # type: ignore[arg-type]


def plain() -> KBRN:
    torch.manual_seed(0)
    return KBRN(SIZE, HIDDEN, num_centers=5, normalize=False, dtype=F64)


class Doubled(KernelActivation):
    """A subclass of the activation, which must be called."""

    def forward(self, a: Tensor) -> Tensor:
        return 2 * super().forward(a)


OF_ONES_OWN = [
    nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.PReLU()).double(),
    Doubled(HIDDEN, 5).double(),
]


@pytest.mark.parametrize("act", OF_ONES_OWN, ids=["parameters", "subclass"])
def test_any_module_in_place_of_the_activation(act: nn.Module) -> None:
    """It is called with the rows of each step; outputs, states and gradients are the equations'."""
    kbrn = plain()
    kbrn.cells[0].activation = act
    assert_equations(Variant(FAMILY, {}), kbrn, texts(5, 5, 5), ["grid"])


@pytest.mark.parametrize("act", [None, nn.Tanh()], ids=["linear", "pointwise"])
@pytest.mark.parametrize("part", ["lin_recurrent", "lin_input"])
def test_maps_of_ones_own_are_called(part: str, act: nn.Module | None) -> None:
    """The map has a bias, or is no Linear at all."""
    kbrn, x = plain(), random_text(5, 3, SIZE)
    made = nn.Linear(HIDDEN if part == "lin_recurrent" else SIZE, HIDDEN, dtype=F64)
    cell = kbrn.cells[0]
    setattr(cell, part, made if act is None else nn.Sequential(made, act))
    h, outputs = torch.zeros(3, HIDDEN, dtype=F64), []
    for x_t in x:
        h = cell.activation(cell.lin_recurrent(h) + cell.lin_input(x_t))
        outputs.append(h)
    close(kbrn(x)[0], torch.stack(outputs))


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_functions_of_ones_own_are_kept_as_they_are(dtype: torch.dtype | None) -> None:
    """Each layer has a copy that keeps what was learned, and half precision works."""
    learned = nn.Sequential(nn.PReLU(init=0.25))
    nn.init.constant_(learned[0].weight, 0.5)
    layers = [
        RCNN(SIZE, HIDDEN, num_layers=2, act=learned, dtype=dtype),
        RCNN(SIZE, HIDDEN, num_layers=2, act=learned, decay="recurrent", dtype=dtype),
        RKM(SIZE, HIDDEN, num_layers=2, cell="general", q=learned, dtype=dtype),
    ]
    for layer in layers:
        layer.to(dtype)
        kept = [getattr(cell, "act", None) or cell.q for cell in layer.cells]
        assert [each[0].weight.item() for each in kept] == [0.5, 0.5] and kept[0] is not kept[1]
        x = random_text(4, 2, SIZE).to(dtype or torch.float32)
        assert layer(x)[0].dtype == x.dtype
        layer.reset_parameters()
        assert kept[0][0].weight.item() == 0.25
