"""Tokens that count in part; dropout between layers, or with one mask per text on inputs."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from pyg_kernels.sequence import RCNN
from tests.covering import covering
from tests.sequence.equations import assert_equations
from tests.sequence.rcnn import EVERY, FAMILY, layer_equations, random_rcnn
from tests.sequence.texts import F64, SIZE, close, gradients, joined, pointers, random_text, texts
from tests.sequence.variants import Variant

# Tokens that count in part: the stated recurrence, and the text without unselected tokens

LENGTHS = (5, 0, 1, 8, 5)
SUMS: dict[str, dict[str, Any]] = {
    **{name: options for name, options in EVERY.items() if "pooling" not in options},
    "additive": {"combine": "add", "normalize": False, "order": 3},
    "additive-sum": {"combine": "add", "normalize": False, "readout": "sum", "decay": "input"},
    "whole": {"normalize": False, "decay": 1.0, "order": 3},
    "additive-recurrent": {"combine": "add", "normalize": False, "decay": "recurrent"},
}
of_sums = pytest.mark.parametrize("options", SUMS.values(), ids=SUMS)


def weights(*lengths: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(length, generator=generator, dtype=F64) for length in lengths]


@of_sums
def test_selected_tokens(options: dict[str, Any]) -> None:
    """Some tokens count in part, some fully and some not at all, in all forms of texts."""
    variant, chosen = Variant(FAMILY, options), weights(*LENGTHS)
    chosen[3][:3], chosen[3][3:5], chosen[4][:] = 1.0, 0.0, 1.0
    for lengths, forms in (
        (LENGTHS, ["ptr", "left", "right", "holes", "holes first", "paths"]),
        (LENGTHS[2:], ["packed"]),
    ):
        selection = chosen[-len(lengths) :]
        assert_equations(variant, variant.build(), texts(*lengths), forms, selection=selection)


@of_sums
def test_unselected_tokens_leave_no_trace(options: dict[str, Any]) -> None:
    """Neither in outputs at selected tokens nor in states; they get no gradient."""
    rcnn, pieces = random_rcnn(SIZE, SIZE, **options), texts(*LENGTHS)
    chosen = torch.cat([(w < 0.5) & (i != 3) for i, w in enumerate(weights(*LENGTHS))])
    x, ptr = joined(pieces).requires_grad_(), pointers(pieces)
    out, state = rcnn(x, ptr=ptr, selection=chosen)
    (slope,) = gradients([out[chosen], *state], [x])
    assert (slope[~chosen] == 0).all() and (slope[chosen] != 0).any()
    other = torch.where(chosen.unsqueeze(1), x, 7 - 3 * x)
    again, state_again = rcnn(other, ptr=ptr, selection=chosen)
    assert all(map(torch.equal, (out, *state), (again, *state_again)))
    out.mul_(2)  # callers may change outputs


def test_bad_selections() -> None:
    rcnn, (x,) = random_rcnn(SIZE, SIZE), texts(6)
    shapes = [torch.ones(5), torch.ones(6, 1), [1.0] * 6]
    for selection in [*shapes, *(torch.full((6,), v) for v in (1.5, -0.1, float("nan")))]:
        with pytest.raises(ValueError, match="selection"):
            rcnn(x, ptr=torch.tensor([0, 2, 6]), selection=selection)
    for combine in ("mul", "add"):
        rcnn = RCNN(SIZE, SIZE, pooling="max", combine=combine)
        with pytest.raises(ValueError, match="pooling='max'"):
            rcnn(torch.zeros(3, SIZE), selection=torch.ones(3))


@pytest.mark.parametrize(
    "options",
    [{}, {"decay": "input"}, {"decay": "recurrent"}, {"output_map": True}, {"highway": True}],
    ids=str,
)
def test_selections_and_dropout_in_half_precision(options: dict[str, Any]) -> None:
    """Selections are computed in single precision, as the tokens are."""
    torch.manual_seed(0)
    layer, x, chosen = (
        RCNN(6, 6, state_dropout=0.5, **options),
        torch.randn(5, 3, 6),
        torch.rand(5, 3),
    )
    wanted, _ = layer.eval()(x, selection=chosen)
    for dtype, atol in {torch.float16: 5e-3, torch.bfloat16: 5e-2}.items():
        low = copy.deepcopy(layer).to(dtype)
        found, _ = low(x.to(dtype), selection=chosen.to(dtype))
        torch.testing.assert_close(found.float(), wanted, rtol=0, atol=atol)
        low.train()(x.to(dtype))[0].sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in low.parameters())


# Dropout between layers, and dropout with one mask per text on what a layer reads

KEPT = 0.6


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The masks that a layer draws: on x, then on h, for each cell."""
    found: list[Tensor] = []
    draw = Tensor.bernoulli_

    def record(mask: Tensor, *args: Any) -> Tensor:
        found.append(draw(mask, *args))
        return mask

    monkeypatch.setattr(Tensor, "bernoulli_", record)
    return found


def dropping(*sizes: int, **options: Any) -> RCNN:
    return random_rcnn(*sizes, state_dropout=1 - KEPT, **options).train()


OPTIONS = covering(
    2,
    decay=[0.5, "learned", "input", "recurrent"],
    order=[1, 2],
    combine=["mul", "add"],
    output_gate=[False, True],
    highway=[False, True],
    output_map=[False, True],
)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_dropout(options: dict[str, Any], drawn: list[Tensor]) -> None:
    """Maps read the masked token, gates also the masked output; a highway carries whole tokens."""
    rcnn, pieces = dropping(SIZE, SIZE, **options), texts(5, 0, 2)
    output, (h, c) = rcnn(torch.cat(pieces), ptr=pointers(pieces))
    parts = output.split([5, 0, 2])
    for b, (x, masks) in enumerate(zip(pieces, zip(*drawn, strict=True), strict=True)):
        expected = layer_equations(rcnn.cells[0], x, masks=masks, **options)
        close((parts[b], h[0, b], c[0, b]), expected)


def test_dropout_of_maxima(drawn: list[Tensor]) -> None:
    options = {"order": 1, "decay": "recurrent", "act": None, "bias": False}
    rcnn, x = dropping(SIZE, 3, pooling="max", **options), random_text(6, 2, SIZE)
    (cell,), (output, _) = rcnn.cells, rcnn(x)
    on_x, on_h = drawn
    h = on_h.new_zeros(2, 3)
    for t, read in enumerate(x * on_x):
        new, before = read @ cell.lins[0].weight.t(), (h * on_h) @ cell.decay_recurrent.weight.t()
        lam = torch.sigmoid(read @ cell.decay_lin.weight.t() + before + cell.decay_bias)
        h = torch.maximum(lam * h, new) if t else new
        close(output[t], h)


def test_a_mask_of_its_own_for_each_text_layer_direction_and_call(drawn: list[Tensor]) -> None:
    torch.manual_seed(0)
    rcnn = dropping(64, 64, num_layers=2, bidirectional=True)
    for _ in range(2):
        rcnn(random_text(3, 2, 64))
    first, second = [64, 64] * 2, [128, 64] * 2
    assert [mask.size(1) for mask in drawn] == 2 * (first + second)
    masks = torch.cat([mask[:, :64] for mask in drawn])
    assert ((masks == 0) | (masks == 1 / KEPT)).all()
    assert 0.35 < (masks == 0).double().mean() < 0.45
    assert len(masks.unique(dim=0)) == len(masks)


def test_standard_dropout_is_between_layers() -> None:
    torch.manual_seed(0)
    x = random_text(5, 3, 64)

    def factors(dropout: float, num_layers: int) -> Tensor:
        """The factors of layers that otherwise repeat their input: order 1, decay 0, W = 1."""
        rcnn = RCNN(64, 64, num_layers, order=1, decay=0.0, act=None, dropout=dropout).double()
        for cell in rcnn.cells:
            torch.nn.init.eye_(cell.lins[0].weight)
        return rcnn(x)[0] / x

    with pytest.warns(UserWarning, match="num_layers=1"):
        close(factors(0.5, 1), torch.ones_like(x))
    for dropout, layers, share in [(0.5, 3, 0.75), (0.2, 2, 0.2)]:
        found = factors(dropout, layers)
        kept = (1 - dropout) ** (1 - layers)
        assert ((found == 0) | ((found - kept).abs() < 1e-12)).all()
        assert abs((found == 0).double().mean() - share) < 0.1
        assert not torch.equal(found[0], found[1])  # each token has its own mask


@pytest.mark.parametrize("name", ["recurrent", "max-add-learned", "both-ways-recurrent"])
def test_nothing_is_dropped_in_evaluation(name: str) -> None:
    rcnn, plain = (random_rcnn(SIZE, SIZE, state_dropout=p, **EVERY[name]) for p in (0.5, 0.0))
    x = random_text(5, 2, SIZE)
    rcnn.eval()
    close(rcnn(x)[0], plain(x)[0])
    rcnn.train()
    assert not torch.allclose(rcnn(x)[0], plain(x)[0])


@pytest.mark.parametrize("options", [{"decay": "input"}, {"decay": "recurrent"}])
@pytest.mark.parametrize("shape", [(20_000, 1), (200, 100)])
def test_gradients_of_many_tokens_in_single_precision(options: Any, shape: tuple[int, int]) -> None:
    """Bias gradients are sums over all tokens: short sums of one sign, then the sum of these."""
    torch.manual_seed(0)
    single, x = RCNN(3, 4, **options), torch.randn(*shape, 3)
    double = copy.deepcopy(single).double()
    for layer, tokens in ((single, x), (double, x.double())):
        layer(tokens)[0].sum().backward()
    exact = dict(double.named_parameters())
    for name, found in single.named_parameters():
        error = (found.grad.double() - exact[name].grad).abs().max() / exact[name].grad.abs().max()
        assert error < (1e-6 if name.endswith("bias") else 1e-5)  # others are PyTorch's products


def test_maxima_of_sums_whatever_the_default_device() -> None:
    rcnn = RCNN(SIZE, 3, pooling="max", combine="add").double()
    x = random_text(4, 2, SIZE).requires_grad_()
    expected = rcnn(x)[0]
    (wanted,) = torch.autograd.grad(expected.sum(), x)
    with torch.device("meta"):
        output = rcnn(x)[0]
        (slope,) = torch.autograd.grad(output.sum(), x)
    close((output, slope), (expected, wanted))
