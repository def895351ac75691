"""Memory cells in blocks and steps against their definition, and that against a formula."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pyg_kernels.ops import backend
from pyg_kernels.ops import memory_scan as op
from pyg_kernels.ops.memory_scan import Form, Parts, blocked, reference
from pyg_kernels.ops.packing import Packing
from tests.sequence.variants import close

D = 3
FORMS = {
    "lstm": Form(("output", "input", "forget", "candidate"), 4, candidate="tanh", out="tanh"),
    "gates alone": Form(("input", "forget", "candidate"), 2),
    "parallel": Form(("output", "input", "forget", "candidate")),
    "coupled": Form(("output", "forget", "candidate"), coupled=True),
    "coupled, fed back": Form(("forget", "candidate"), 2, coupled=True, out="relu"),
    "static": Form(("candidate",), out="tanh"),
    "static, fed back": Form(("output", "candidate"), 2, out="sigmoid"),
    "no memory": Form(("output", "candidate"), memory=False, out="tanh"),
    "activated memory": Form(("candidate",), 1, carried="tanh", out="tanh"),
    "activated memory, another output": Form(("candidate",), carried="relu", out="tanh"),
    "activated memory, plain output": Form(("candidate",), carried="sigmoid"),
}
PACKINGS = {
    "even": Packing.of_equal_lengths(4, 3),
    "ragged": Packing.of_lengths([6, 3, 1, 0]),
    "blocks": Packing.of_lengths([500, 400, 400, 30]),
    "none": Packing.of_lengths([0, 0]),
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def inputs_of(form: Form, packing: Packing, norm: bool) -> list[Tensor]:
    """Logits, h, c, then what the cell has of parts."""
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int) -> Tensor:
        drawn = torch.randn(*shape, generator=generator, dtype=torch.float64)
        return (0.5 * drawn).requires_grad_()

    texts, width = packing.num_texts, len(form.gates) * D
    tensors = [draw(packing.num_tokens, width), draw(texts, D), draw(texts, D)]
    if form.reading:
        tensors.append(draw(form.reading * D, D))
    if norm:
        tensors.extend([draw(D), draw(D)])
    if _static(form):
        tensors.append(draw(2))
    return tensors


def _static(form: Form) -> bool:
    return form.carried is None and not {"input", "forget"} & set(form.gates)


def run(
    scan: object, form: Form, packing: Packing, tensors: list[Tensor], norm: bool
) -> tuple[Tensor, Tensor]:
    logits, h, c, *rest = tensors
    parts = Parts(
        recurrent=rest.pop(0) if form.reading else None,
        norm_weight=rest.pop(0) if norm else None,
        norm_bias=rest.pop(0) if norm else None,
        static=rest.pop(0) if rest else None,
    )
    return scan(form, packing, logits, parts, h, c)  # type: ignore[operator]


@every_form
@pytest.mark.parametrize("packing", PACKINGS.values(), ids=PACKINGS)
@pytest.mark.parametrize("norm", [False, True], ids=["plain", "norm"])
def test_definition(form: Form, packing: Packing, norm: bool) -> None:
    """Outputs, memories and the gradients of every input."""
    tensors = inputs_of(form, packing, norm)
    found = run(op.memory_scan, form, packing, tensors, norm)
    expected = run(reference.memory_scan, form, packing, tensors, norm)
    for one, other in zip(found, expected, strict=True):
        close(one, other)
    seeds = [torch.randn_like(t) for t in expected]
    gradients = [
        torch.autograd.grad(both, tensors, seeds, allow_unused=True, materialize_grads=True)
        for both in (found, expected)
    ]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@every_form
def test_one_output_alone(form: Form) -> None:
    """Gradients that reach outputs only, or memories only."""
    packing = PACKINGS["ragged"]
    tensors = inputs_of(form, packing, False)
    found = run(op.memory_scan, form, packing, tensors, False)
    expected = run(reference.memory_scan, form, packing, tensors, False)
    for one, other in zip(found, expected, strict=True):
        seed = torch.randn_like(one)
        pair = (
            torch.autograd.grad(
                t, tensors, seed, retain_graph=True, allow_unused=True, materialize_grads=True
            )
            for t in (one, other)
        )
        for a, b in zip(*pair, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@every_form
def test_second_derivatives(form: Form) -> None:
    packing = Packing.of_lengths([3, 2])
    tensors = inputs_of(form, packing, True)

    def outputs(*inputs: Tensor) -> tuple[Tensor, Tensor]:
        return run(op.memory_scan, form, packing, list(inputs), True)

    if "relu" in (form.carried, form.out):
        pytest.skip("no second derivative at the kink")
    assert torch.autograd.gradgradcheck(outputs, tensors, atol=1e-5)


def test_any_function_is_carried() -> None:
    form = Form(("candidate",), carried=torch.sin, out=torch.sin)
    packing = Packing.of_equal_lengths(3, 2)
    logits, h, c = inputs_of(form, packing, False)[:3]
    outputs, memories = op.memory_scan(form, packing, logits, Parts(), h, c)
    before = c
    for t in range(3):
        before = logits[2 * t : 2 * t + 2] + before.sin()
        close(memories[2 * t : 2 * t + 2], before)
        close(outputs[2 * t : 2 * t + 2], before.sin())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_adds_up_in_single(dtype: torch.dtype) -> None:
    form, packing = FORMS["lstm"], PACKINGS["ragged"]
    tensors = [t.detach().to(dtype) for t in inputs_of(form, packing, False)]
    h, c = run(op.memory_scan, form, packing, tensors, False)
    assert h.dtype == c.dtype == dtype
    single = run(op.memory_scan, form, packing, [t.float() for t in tensors], False)
    assert torch.equal(h, single[0].to(dtype))
    assert torch.equal(c, single[1].to(dtype))


@every_form
@pytest.mark.parametrize("norm", [False, True], ids=["plain", "norm"])
def test_nothing_is_kept_where_no_gradients_are_wanted(
    form: Form, norm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither without gradients nor with parts that are all frozen, and the numbers are those."""
    packing = PACKINGS["blocks"]
    tensors = inputs_of(form, packing, norm)
    expected = run(reference.memory_scan, form, packing, tensors, norm)

    def keeps(*_: object) -> None:
        raise AssertionError("the values of all gates were kept for a backward")

    monkeypatch.setattr(blocked.MemoryScan, "apply", keeps)
    with torch.no_grad():
        without = run(op.memory_scan, form, packing, tensors, norm)
    frozen = run(op.memory_scan, form, packing, [t.detach() for t in tensors], norm)
    for found in (without, frozen):
        for one, other in zip(found, expected, strict=True):
            close(one, other)


def test_backend() -> None:
    assert backend("cpu")["memory_scan"] == "blocks"
    assert backend("cuda")["memory_scan"] == "steps"
