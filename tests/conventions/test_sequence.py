"""As with nn.LSTM: constructors, lazy sizes, zero states, copies, devices and precisions."""

import copy
import inspect
import pickle
import warnings
from typing import Any

import pytest
import torch

from pyg_kernels.sequence import RCNN, RKM, DenseFilters, RCNNCell, SyncNetFilters
from tests.sequence.layers import SOME, both_ways, families, of_every, of_some
from tests.sequence.texts import SIZE, close, pointers, random_text, texts
from tests.sequence.variants import Family, Variant, parts_of, plain

# Constructors as in nn.LSTM: sizes and layers, the rest by keyword; lazy sizes; copies


@families
def test_positional_arguments_are_those_of_nn_lstm(family: Family) -> None:
    names = ["self", "input_size", "hidden_size", "num_layers"]
    assert inspect.getfullargspec(family.layer.__init__).args == names
    assert inspect.getfullargspec(family.cell.__init__).args == names[:3]


@of_some
def test_copies(variant: Variant) -> None:
    """deepcopy, pickle and a state_dict round trip keep the function; states can be pickled."""
    layer, x = variant.build(), random_text(5, 2, SIZE)
    expected, state = layer(x)
    found = pickle.loads(pickle.dumps(state))
    assert type(found) is type(state)
    assert all(map(torch.equal, parts_of(found), parts_of(state)))
    other = copy.deepcopy(layer)
    for copied in (other, pickle.loads(pickle.dumps(layer))):
        close(copied(x)[0], expected)
    other.reset_parameters()
    assert not torch.allclose(other(x)[0], expected)
    other.load_state_dict(layer.state_dict())
    close(other(x)[0], expected)


@of_some
def test_lazy_sizes(variant: Variant) -> None:
    """A layer or a cell takes a size of -1 from its first input, or from a loaded state dict."""
    options = {**variant.options, "dtype": torch.float64}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lazy = variant.family.layer(-1, variant.hidden, **options).eval()
    assert lazy.input_size == -1 and "(-1, " in repr(lazy)
    optimizer = torch.optim.SGD(lazy.parameters(), lr=0.1)
    lazy.state_dict()  # no size is known yet
    early, x = copy.deepcopy(lazy), random_text(5, 2, SIZE)
    output, _ = lazy(x)
    assert lazy.input_size == SIZE and output.shape == (5, 2, variant.width)
    assert output.dtype == torch.float64
    given = variant.family.layer(SIZE, variant.hidden, **options)
    shapes = {k: v.shape for k, v in given.state_dict().items()}
    assert {k: v.shape for k, v in lazy.state_dict().items()} == shapes
    before = [p.detach().clone() for p in lazy.parameters()]
    output.square().sum().backward()
    optimizer.step()
    assert not all(map(torch.equal, lazy.parameters(), before))
    early.load_state_dict(lazy.state_dict())  # before any input
    assert early.input_size == SIZE
    close(early(x)[0], lazy(x)[0])
    close(copy.deepcopy(lazy)(x)[0], lazy(x)[0])
    cell = variant.family.cell(-1, variant.hidden)
    cell(torch.randn(2, SIZE))
    assert cell.input_size == SIZE
    for call in (lambda: lazy(random_text(5, 2, SIZE + 1)), lambda: cell(torch.randn(2, SIZE + 1))):
        with pytest.raises(ValueError, match=rf"{SIZE + 1}.*{SIZE}"):
            call()


def test_lazy_layers_are_drawn_as_others() -> None:
    """Rows have unit variance, whatever the size turns out to be; one step initialises a cell."""
    torch.manual_seed(0)
    for layer in (RCNN(-1, 300, decay="input"), RKM(-1, 300, ngram=2), RKM(-1, 300)):
        layer.load_state_dict(layer.state_dict())
        layer(torch.randn(5, 2, 12))
        cell: Any = layer.cells[0]
        if isinstance(layer, RCNN):
            weights = [lin.weight for lin in cell.lins]
        else:
            weights = [filters.weight for filters in cell.filters.values()]
        for weight in weights:
            assert abs(weight.square().flatten(1).sum(1).mean().item() - 1) < 0.05
    with pytest.raises(ValueError, match=r"input_size=-1.*None"):
        RKM(-1, 4, ngram=2).initial_state(3)
    assert RKM(-1, 4).initial_state(3).h.shape == (1, 3, 4)
    with pytest.raises(ValueError, match="highway"):
        RCNN(-1, 4, highway=True)(torch.randn(5, 2, 3))


# Zero states as users make them for nn.LSTM, and errors about wrong states


@of_some
def test_initial_state(variant: Variant) -> None:
    """Zeros, with the layer's device and precision, that begin texts as None does."""
    layer, x = variant.build(), random_text(6, 3, SIZE)
    state, (expected, last) = layer.initial_state(3), layer(x)
    assert type(state) is type(last)
    variant.assert_shapes(state, 3)
    for part, end in zip(parts_of(state), parts_of(last), strict=True):
        assert part.dtype == end.dtype and part.device == end.device and not part.any()
    found, end = layer(x, state)
    close(found, expected)
    variant.family.assert_same_states(end, last)
    moved = variant.build().to("meta").initial_state(2)
    assert all(part.is_meta for part in parts_of(moved))
    with pytest.raises(ValueError, match="batch_size"):
        layer.initial_state(-1)
    none = layer.initial_state(0)
    assert layer(x[:, :0], none)[0].numel() == 0


@both_ways
def test_zeros_in_two_directions(variant: Variant) -> None:
    """Zeros of the documented shapes are accepted; a final state is not, in either direction."""
    layer, pieces = variant.build(), texts(5, 2, 4)
    x, ptr = torch.cat(pieces), pointers(pieces)
    expected, state = layer(x, ptr=ptr)
    close(layer(x, plain(parts_of(layer.initial_state(3))), ptr=ptr)[0], expected)
    with pytest.raises(ValueError, match=r"(?s)state.*zeros.*None.*bidirectional"):
        layer(x, state, ptr=ptr)


@pytest.mark.parametrize("pooling", ["sum", "max"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_order_one_needs_no_dimension_for_the_order(pooling: Any, bidirectional: bool) -> None:
    """(h, c), both (layers, B, H), as in nn.LSTM; the extremes of max-pooling likewise."""
    rcnn = RCNN(SIZE, 5, 2, order=1, pooling=pooling, bidirectional=bidirectional).double()
    x, cells = random_text(6, 3, SIZE), 4 if bidirectional else 2
    h = torch.zeros(cells, 3, 5, dtype=x.dtype)
    seen = [] if pooling == "sum" else [h, torch.zeros(cells, 3, dtype=torch.long)]
    expected, state = rcnn(x)
    close(rcnn(x, (h, h, *seen))[0], expected)
    one = [part[:, 0] for part in (h, h, *seen)]
    close(rcnn(x[:, 0], tuple(one))[0], expected[:, 0])
    if bidirectional:
        return
    _, middle = rcnn(x[:2])
    flat = [part.squeeze(2) if part.dim() == 4 else part for part in middle]
    found, end = rcnn(x[2:], tuple(flat))
    close(found, expected[2:])
    close(end, state)


def test_order_one_of_a_cell() -> None:
    """As in nn.LSTMCell: (h, c), both (B, H), or both (H)."""
    cell, x = RCNNCell(SIZE, 5, order=1).double(), random_text(3, SIZE)
    h, c = torch.randn(2, 3, 5, dtype=x.dtype)
    close(cell(x, (h, c)).c, cell(x, (h, c[:, None])).c)
    close(cell(x[0], (h[0], c[0])).c, cell(x, (h, c)).c[0])


# Devices and precisions: given to the constructor, under autocast, and in errors about mismatches

MODULES: dict[str, Any] = {
    **{name: (variant.family.layer, variant.options) for name, variant in SOME.items()},
    "DenseFilters": (DenseFilters, {"widths": (1, 3)}),
    "SyncNetFilters": (SyncNetFilters, {"widths": (3,)}),
}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize(
    ("device", "dtype"),
    [
        *[(None, None), ("cpu", torch.float64), (torch.device("meta"), torch.bfloat16)],
        pytest.param("cuda", torch.float64, marks=pytest.mark.cuda),
    ],
    ids=str,
)
def test_device_and_dtype(name: str, dtype: torch.dtype | None, device: Any) -> None:
    kind, options = MODULES[name]
    module = kind(SIZE, SIZE, device=device, dtype=dtype, **options)
    every = [*module.parameters(), *module.buffers()]
    tensors = [t for t in every if t.is_floating_point()]
    expected = torch.device("cpu" if device is None else device).type
    assert all(t.dtype == (dtype or torch.float32) for t in tensors)
    assert all(t.device.type == expected for t in every)
    if expected != "meta":
        assert all(t.isfinite().all() for t in tensors)
    if dtype == torch.float64:  # not drawn in single precision
        assert any(not torch.equal(p, p.float().double()) for p in module.parameters())


@of_every
def test_autocast(variant: Variant) -> None:
    """Under bfloat16 autocast outputs are close, and bfloat16 as nn.LSTM's; double is unaffected.

    Gradients are finite float32.
    """
    layer, x = variant.build(scale=0.3).float(), random_text(6, 3, SIZE).float()
    expected, _ = layer(x)
    double = copy.deepcopy(layer).double()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, state = layer(x)
        found = [output, *parts_of(state), *parts_of(layer.cells[0](x[0]))]
        found += [layer(x, lengths=[6, 2, 4])[0], layer(x.bfloat16())[0], layer(x[:, 0])[0]]
        if not layer.bidirectional:
            found.append(layer(x, state)[0])
        assert double(x.double())[0].dtype == torch.float64
    assert all(t.dtype == torch.bfloat16 for t in found if t.is_floating_point())
    assert output.isfinite().all()
    scale = expected.abs().max().clamp(min=1.0)
    assert (output.float() - expected).abs().max() / scale < 0.05
    output.float().square().sum().backward()
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert parameter.grad.dtype == torch.float32 and parameter.grad.isfinite().all()


@families
def test_another_precision_than_the_weights(family: Family) -> None:
    """The error names both precisions and what to convert, for tokens and for a state."""
    layer, x = family.layer(SIZE, 5), torch.randn(6, 3, SIZE)
    for dtype in (torch.float64, torch.bfloat16):
        for module, given in [(layer, x), (family.cell(SIZE, 5), x[0])]:
            with pytest.raises(ValueError, match=rf"{dtype}.*torch\.float32.*convert"):
                module(given.to(dtype))
    state = layer.initial_state(3)
    wrong = plain([part.double() for part in parts_of(state)])
    with pytest.raises(ValueError, match=r"h has dtype torch\.float64.*h\.to\(torch\.float32\)"):
        layer(x, wrong)
