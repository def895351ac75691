"""As nn.LSTM: constructors, lazy sizes, zero states, copies, devices and precisions."""

import copy
import inspect
import io
import pickle
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pyg_kernels.sequence import (
    KBRN,
    RCNN,
    RKM,
    DenseFilters,
    KBRNCell,
    RCNNCell,
    RKMCell,
    SyncNetFilters,
)
from tests.sequence.layers import both_ways, families, of_every, of_some
from tests.sequence.texts import SIZE, close, pointers, random_text, texts
from tests.sequence.variants import Family, Variant, like, parts_of, plain

# Constructors as nn.LSTM's: sizes and layers, the rest by keyword; lazy sizes; copies


@families
def test_positional_arguments_are_those_of_nn_lstm(family: Family) -> None:
    layer = family.layer(SIZE, 5, 2)
    assert (layer.input_size, layer.hidden_size, layer.num_layers) == (SIZE, 5, 2)
    with pytest.raises(TypeError):
        family.layer(SIZE, 5, 2, True)
    with pytest.raises(TypeError):
        family.cell(SIZE, 5, True)
    names = ["input_size", "hidden_size", "num_layers"]
    for made, expected in [(family.layer, names), (family.cell, names[:2])]:
        parameters = inspect.signature(made).parameters.values()
        kinds = {p.name: p.kind for p in parameters}
        positional = [
            k for k, kind in kinds.items() if kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        ]
        assert positional == expected


@of_some
def test_copies(variant: Variant) -> None:
    """deepcopy, pickle, torch.save and a state_dict round trip keep the function; also states."""
    layer, x = variant.build(), random_text(5, 2, SIZE)
    expected, state = layer(x)
    found = pickle.loads(pickle.dumps(state))
    assert type(found) is type(state)
    assert all(map(torch.equal, parts_of(found), parts_of(state)))
    close(copy.deepcopy(layer)(x)[0], expected)
    close(pickle.loads(pickle.dumps(layer))(x)[0], expected)
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    other = copy.deepcopy(layer)
    other.reset_parameters()
    assert not torch.allclose(other(x)[0], expected)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    close(other(x)[0], expected)


@of_some
def test_lazy_sizes(variant: Variant) -> None:
    """-1 is read off the first input; what was drawn then is what is drawn for a given size."""
    options = {**variant.options, "dtype": torch.float64}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lazy = variant.family.layer(-1, variant.hidden, **options).eval()
    assert lazy.input_size == -1 and "(-1, " in repr(lazy)
    optimizer = torch.optim.SGD(lazy.parameters(), lr=0.1)
    lazy.state_dict()  # where no size is known yet
    early, x = copy.deepcopy(lazy), random_text(5, 2, SIZE)
    output, _ = lazy(x)
    assert lazy.input_size == SIZE and output.shape == (5, 2, variant.width)
    assert output.dtype == torch.float64
    given = variant.family.layer(SIZE, variant.hidden, **options).eval()
    shapes = {k: v.shape for k, v in given.state_dict().items()}
    assert {k: v.shape for k, v in lazy.state_dict().items()} == shapes
    before = [p.detach().clone() for p in lazy.parameters()]
    output.square().sum().backward()
    optimizer.step()
    moved = [not torch.equal(p, b) for p, b in zip(lazy.parameters(), before, strict=True)]
    assert any(moved)
    early.load_state_dict(lazy.state_dict())  # before any input
    assert early.input_size == SIZE
    close(early(x)[0], lazy(x)[0])
    close(copy.deepcopy(lazy)(x)[0], lazy(x)[0])
    with pytest.raises(ValueError, match=rf"{SIZE + 1}.*{SIZE}"):
        lazy(random_text(5, 2, SIZE + 1))


def test_lazy_layers_are_drawn_as_others() -> None:
    """Of unit variance a row, whatever the size turns out to be; one step initialises a cell."""
    torch.manual_seed(0)
    for layer in (RCNN(-1, 300, decay="input"), RKM(-1, 300, ngram=2), RKM(-1, 300)):
        layer.load_state_dict(layer.state_dict())
        layer(torch.randn(5, 2, 12))
        cell: Any = layer.cells[0]
        parts = (
            cell.lins if isinstance(layer, RCNN) else [f.weights[0] for f in cell.filters.values()]
        )
        for part in parts:
            weight = getattr(part, "weight", part)
            assert abs(weight.square().flatten(1).sum(1).mean().item() - 1) < 0.05
    with pytest.raises(ValueError, match=r"input_size=-1.*None"):
        RKM(-1, 4, ngram=2).initial_state(3)
    assert RKM(-1, 4).initial_state(3).h.shape == (1, 3, 4)
    with pytest.raises(ValueError, match="highway"):
        RCNN(-1, 4, highway=True)(torch.randn(5, 2, 3))


@families
def test_lazy_cells(family: Family) -> None:
    cell = family.cell(-1, 5)
    cell(torch.randn(2, SIZE))
    assert cell.input_size == SIZE
    with pytest.raises(ValueError, match=rf"{SIZE + 1}.*{SIZE}"):
        cell(torch.randn(2, SIZE + 1))


# Zero states as one makes them for nn.LSTM, and what is said of wrong ones


@of_some
def test_initial_state(variant: Variant) -> None:
    """Zeros, in the device and the precision of the layer, that begin texts as None does."""
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
    """Zeros of the documented shapes are taken; what a text left is not, in either direction."""
    layer, pieces = variant.build(), texts(5, 2, 4)
    x, ptr = torch.cat(pieces), pointers(pieces)
    expected, state = layer(x, ptr=ptr)
    zeros = like(state, [torch.zeros_like(part) for part in parts_of(layer.initial_state(3))])
    close(layer(x, plain(zeros), ptr=ptr)[0], expected)
    named = variant.family.state_argument
    with pytest.raises(ValueError, match=rf"(?s){named}.*zeros.*None.*bidirectional"):
        layer(x, state, ptr=ptr)


@pytest.mark.parametrize("pooling", ["sum", "max"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_order_one_needs_no_dimension_for_the_order(pooling: Any, bidirectional: bool) -> None:
    """(h, c), both of (layers, B, H), as nn.LSTM's; the extremes of max-pooling likewise."""
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
    """As nn.LSTMCell: (h, c), both of (B, H), or of (H)."""
    cell, x = RCNNCell(SIZE, 5, order=1).double(), random_text(3, SIZE)
    h, c = torch.randn(2, 3, 5, dtype=x.dtype)
    close(cell(x, (h, c)).c, cell(x, (h, c[:, None])).c)
    close(cell(x[0], (h[0], c[0])).c, cell(x, (h, c)).c[0])


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (RCNN, {}, r"c has shape \(1, 3, 5\), expected \(1, 3, 2, 5\)"),
    (RCNN, {"order": 1, "num_layers": 2}, r"h has shape \(1, 3, 5\), expected \(2, 3, 5\)"),
    (RCNN, {"bidirectional": True}, r"h has shape \(1, 3, 5\), expected \(2, 3, 5\)"),
    (RKM, {"bidirectional": True}, r"h has shape \(1, 3, 5\), expected \(2, 3, 5\)"),
    (RKM, {"ngram": 2}, r"expected \(h, c, x\)"),
    (KBRN, {"num_layers": 2}, r"h has shape \(1, 3, 5\), expected \(2, 3, 5\)"),
]


@pytest.mark.parametrize(("layer", "options", "said"), WRONG, ids=str)
def test_wrong_states(layer: Any, options: dict[str, Any], said: str) -> None:
    """The error says the shape that is expected, and that None begins the texts."""
    h = torch.zeros(1, 3, 5)
    state = h if layer is KBRN else (h, h)
    with pytest.raises(ValueError, match=rf"(?s){said}.*None to begin the texts"):
        layer(SIZE, 5, **options)(torch.randn(6, 3, SIZE), state)


@families
def test_wrong_precision_of_a_state(family: Family) -> None:
    layer, x = family.layer(SIZE, 5), torch.randn(6, 3, SIZE)
    parts = [part.double() for part in parts_of(layer.initial_state(3))]
    wrong = parts[0] if len(parts) == 1 else tuple(parts)
    with pytest.raises(ValueError, match=r"h has dtype torch\.float64.*h\.to\(torch\.float32\)"):
        layer(x, wrong)


# Devices and precisions: given at first, joined by autocast, and named where they differ

MODULES: dict[str, Any] = {
    "RCNN": (RCNN, {"decay": "recurrent", "output_gate": True, "num_layers": 2}),
    "RCNN-max": (RCNN, {"decay": "learned", "pooling": "max", "output_gate": True}),
    "RKM": (RKM, {"ngram": 2, "layer_norm": True, "bidirectional": True}),
    "RKM-wavelets": (RKM, {"ngram": 4, "filters": "syncnet", "cell": "linear"}),
    "KBRN": (KBRN, {"num_centers": 9, "affine": True}),
    "RCNNCell": (RCNNCell, {"decay": "input", "highway": True}),
    "RKMCell": (RKMCell, {"cell": "general", "q": "tanh", "layer_norm": True}),
    "KBRNCell": (KBRNCell, {"num_centers": 9, "init": "tanh", "affine": True}),
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
    if dtype == torch.float64:  # drawn as such, not in single precision and rounded
        assert any(not torch.equal(p, p.float().double()) for p in module.parameters())


@of_every
def test_autocast(variant: Variant) -> None:
    """Under bfloat16 autocast outputs stay close, in bfloat16 as nn.LSTM's; double is left alone.

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
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_another_precision_than_the_weights(family: Family, dtype: torch.dtype) -> None:
    """The error names both, and what to convert, as nn.LSTM's."""
    x = torch.randn(6, 3, SIZE)
    modules: list[tuple[nn.Module, Tensor]] = [(nn.LSTM(SIZE, 5), x), (family.layer(SIZE, 5), x)]
    for module, given in [*modules, (family.cell(SIZE, 5), x[0])]:
        with pytest.raises(ValueError, match=rf"{dtype}.*torch\.float32.*[cC]onvert"):
            module(given.to(dtype))


# Models written for torch's recurrent layers run with these in their place, line by line

WORDS, EMBEDDING, HIDDEN, LAYERS = 11, 6, 8, 2
#: Each with whether its state is a pair, as nn.LSTM's, or one tensor, as nn.RNN's.
ALL: dict[str, tuple[Callable[..., Any], bool]] = {
    "RCNN": (partial(RCNN, order=1, decay="recurrent"), True),
    "RKM": (RKM, True),
    "KBRN": (partial(KBRN, num_centers=9, normalize=False, init="tanh", affine=True), False),
}


def repackage_hidden(h: Any) -> Any:
    """As in PyTorch's example word_language_model."""
    return h.detach() if isinstance(h, Tensor) else tuple(repackage_hidden(v) for v in h)


class RNNModel(nn.Module):
    """PyTorch's example word_language_model."""

    def __init__(self, layer: Callable[..., Any], pair: bool) -> None:
        super().__init__()
        self.encoder = nn.Embedding(WORDS, EMBEDDING)
        self.rnn = layer(EMBEDDING, HIDDEN, LAYERS, dropout=0.0)
        self.decoder = nn.Linear(HIDDEN, WORDS)
        self.pair = pair

    def forward(self, ids: Tensor, hidden: Any) -> tuple[Tensor, Any]:
        output, hidden = self.rnn(self.encoder(ids), hidden)
        return F.log_softmax(self.decoder(output).view(-1, WORDS), dim=1), hidden

    def init_hidden(self, batch_size: int) -> Any:
        h = torch.zeros(LAYERS, batch_size, HIDDEN)
        return (h, h) if self.pair else h


@pytest.mark.parametrize(("layer", "pair"), ALL.values(), ids=ALL)
def test_language_model(layer: Callable[..., Any], pair: bool) -> None:
    torch.manual_seed(0)
    model, bptt = RNNModel(layer, pair), 5
    text = torch.arange(25).unsqueeze(1).add(torch.arange(3)) % WORDS  # one word after the other
    source, target = text[:-1], text[1:]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses: list[float] = []
    for _ in range(15):
        hidden = model.init_hidden(3)
        for start in range(0, len(source), bptt):
            hidden = repackage_hidden(hidden)
            model.zero_grad()
            scores, hidden = model(source[start : start + bptt], hidden)
            loss = F.nll_loss(scores, target[start : start + bptt].reshape(-1))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    model.eval()
    whole, last = model(source, model.init_hidden(3))
    hidden, parts = model.init_hidden(3), []
    for piece in source.split(bptt):
        scores, hidden = model(piece, repackage_hidden(hidden))
        parts.append(scores)
    torch.testing.assert_close(torch.cat(parts), whole)
    torch.testing.assert_close(hidden, last)
