"""What layers compute from texts by their equations, through stacks and both directions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import BatchNorm1d
from torch.nn.utils.rnn import pack_sequence, unpack_sequence

from pyg_kernels.sequence import path_batch
from tests.sequence.texts import assert_close, close, gradients, place, pointers
from tests.sequence.variants import Family, Variant, named_parts, parts_of, plain

OF_LAYERS = {"num_layers", "bidirectional", "batch_first", "dropout", "seed", "scale"}
FORMS = ["ptr", "left", "right", "holes", "lengths", "packed", "paths", "grid", "one"]


class Reading(NamedTuple):
    """The results of reading texts.

    Attributes:
        outputs: One tensor for each text, (L, H) or (L, 2 H).
        ends: The state of each cell after the last token; the first dimension is the texts.
        rows: The inputs of the activation of each KBRN cell, for the tokens of all steps in order.
    """

    outputs: list[Tensor]
    ends: list[tuple[Tensor, ...]]
    rows: list[Tensor]


def reading(
    variant: Variant,
    layer: Any,
    pieces: list[Tensor],
    states: Sequence[Sequence[Tensor]] | None = None,
    selection: list[Tensor] | None = None,
) -> Reading:
    """Reads texts (L, F), with token weights (L,), from given states of each cell."""
    options = {k: v for k, v in variant.options.items() if k not in OF_LAYERS}
    ends: list[tuple[Tensor, ...]] = []
    rows: list[Tensor] = []
    for _ in range(layer.num_layers):
        halves = []
        for backwards in [False, True][: 1 + layer.bidirectional]:
            number = len(ends)
            read = [piece.flip(0) if backwards else piece for piece in pieces]
            before = None if states is None else states[number]
            if selection is not None:
                options["selection"] = [w.flip(0) if backwards else w for w in selection]
            outputs, end = variant.family.reads(layer.cells[number], options, read, before)
            if variant.family.name == "kbrn":
                *end, seen = end
                rows.append(seen)
            halves.append([text.flip(0) if backwards else text for text in outputs])
            ends.append(tuple(end))
        pieces = [torch.cat(both, dim=1) for both in zip(*halves, strict=True)]
    return Reading(pieces, ends, rows)


def read_in_form(
    layer: Any,
    pieces: list[Tensor],
    state: Any = None,
    form: str = "ptr",
    selection: list[Tensor] | None = None,
) -> tuple[Tensor, Any]:
    """The outputs of all tokens, text after text, and the state; a form may be batch first.

    Token weights, where given, are passed in the same form.
    """
    if form.endswith(" first"):
        layer, form = copy.copy(layer), form.removesuffix(" first")
        layer.batch_first = True
    given: dict[str, Any] = {}
    if selection is not None:
        given["selection"] = torch.cat(selection)
    if form == "ptr":
        return layer(torch.cat(pieces), state, ptr=pointers(pieces).int(), **given)
    if form == "paths":
        return layer(path_batch(pieces), state, **given)
    if form == "one":
        return layer(pieces[0], state, **given)
    if form == "packed":
        if selection is not None:
            given["selection"] = pack_sequence(selection, enforce_sorted=False).data
        packed, last = layer(pack_sequence(pieces, enforce_sorted=False), state, **given)
        return torch.cat(unpack_sequence(packed)), last
    if form == "grid":
        output, last = layer(torch.stack(pieces, dim=1), state)
        return output.transpose(0, 1).flatten(0, 1), last
    how = "right" if form == "lengths" else form
    grid, mask = place(pieces, how)
    given = {"lengths": [len(piece) for piece in pieces]} if form == "lengths" else {"mask": mask}
    if selection is not None:
        weights, _ = place([weight.unsqueeze(1) for weight in selection], how)
        given["selection"] = weights.squeeze(2)
    if layer.batch_first:
        grid = grid.transpose(0, 1)
        given = {k: v.t() if isinstance(v, Tensor) else v for k, v in given.items()}
    output, last = layer(grid, state, **given)
    output = output.transpose(0, 1) if layer.batch_first else output
    assert (output[~mask] == 0).all()
    return torch.cat([output[mask[:, b], b] for b in range(len(pieces))]), last


def read_by_steps(
    family: Family, layer: Any, pieces: list[Tensor], state: Any, form: str
) -> tuple[Tensor, Any]:
    """The same by steps of the cell, for texts of one length or for a single unbatched text."""
    (cell,), after, outputs = layer.cells, family.of_cell(state), []
    for x_t in pieces[0] if form.startswith("one") else torch.stack(pieces, dim=1):
        after = cell(x_t, after)
        outputs.append(parts_of(after)[0])
    return torch.stack(outputs, dim=-2).flatten(0, -2), family.of_layer(after)


def assert_equations(
    variant: Variant,
    layer: Any,
    pieces: list[Tensor],
    forms: Sequence[str] = ("ptr",),
    from_state: bool = True,
    canceling: tuple[str, ...] = ("lin_input.bias",),
    tolerance: float = 1.0,
    selection: list[Tensor] | None = None,
) -> None:
    """Compares outputs, final states, all gradients and the norms' running statistics.

    Some gradients are sums whose terms cancel, such as that of a bias before a normalisation. They
    are zero except for the rounding of their terms.
    """
    family = variant.family
    x = [piece.clone().requires_grad_() for piece in pieces]
    from_state &= not layer.bidirectional and variant.options.get("pooling") != "max"
    states = variant.states(len(pieces)) if from_state else None
    given = [t.requires_grad_() for cell in states or () for t in cell]
    weights = None if selection is None else [w.clone().requires_grad_() for w in selection]
    inputs = {
        **{f"text {b}": piece for b, piece in enumerate(x)},
        **{f"state {k}": t for k, t in enumerate(given)},
        **{f"weights {b}": w for b, w in enumerate(weights or ())},
        **dict(layer.named_parameters()),
    }
    expected = reading(variant, layer, x, states, weights)
    wanted = [torch.cat(expected.outputs), *family.joined(expected.ends)]
    slopes = gradients([t for t in wanted if t.is_floating_point()], list(inputs.values()))
    largest = max([1.0, *(g.abs().max().item() for g in slopes if g.numel())])
    norms = [m for m in layer.modules() if isinstance(m, BatchNorm1d)]
    for form in forms:
        before = copy.deepcopy(norms)
        parts = None if states is None else family.joined(states)
        alone = form.startswith("one")
        if parts is not None and alone:
            parts = [part[:, 0] for part in parts]
        state = None if parts is None else plain(parts)
        if form.endswith("by steps"):
            output, last = read_by_steps(family, layer, x, state, form)
        else:
            output, last = read_in_form(layer, x, state, form, weights)
        ends = [t for k, t in named_parts(last).items() if k not in family.uncompared]
        ends = [part.unsqueeze(1) for part in ends] if alone else ends
        found = [output, *ends]
        names = [f"{form}: {name}" for name in ("output", *named_parts(last))][: len(found)]
        assert_close([t.double() for t in found], [t.double() for t in wanted], names)
        differentiable = [t for t in found if t.is_floating_point()]
        for name, a, b in zip(
            inputs, gradients(differentiable, list(inputs.values())), slopes, strict=True
        ):
            scale = tolerance * (largest if name.endswith(canceling) else 1.0)
            assert_close([a / scale], [b / scale], [f"{form}: gradient of {name}"])
        for norm, old, seen in zip(norms, before, expected.rows, strict=bool(norms)):
            if len(seen):
                old(seen.detach())  # BatchNorm1d on the rows of all steps
            assert_same_running_set(norm, old)


def assert_same_running_set(found: BatchNorm1d, expected: BatchNorm1d) -> None:
    for name, buffer in expected.named_buffers():
        close(found.get_buffer(name).double(), buffer.double())
