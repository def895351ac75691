"""A layer among PyTorch's modules: precision, copies, derivatives, compiling, hooks."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import BatchNorm1d, Linear, Sequential
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.rnn import pack_sequence

from pyg_kernels.nn import KernelActivation
from tests.promises import assert_same_in_onnx, assert_torch_func
from tests.sequence.equations import OF_LAYERS, assert_equations
from tests.sequence.layers import EVERY, KBRN, RCNN, RKM, of_derivatives, of_every, of_some
from tests.sequence.rkm import CELLS, softsign
from tests.sequence.texts import SIZE, close, pointers, random_text, texts
from tests.sequence.variants import Family, Options, Variant, named_parts, parts_of, plain

PRECISIONS = {torch.float32: (1e-5, 1e-4), torch.bfloat16: (0.06, 0.2), torch.float16: (0.06, 0.2)}


@of_some
@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
def test_precision(variant: Variant, dtype: torch.dtype) -> None:
    """Other dtypes come out as they go in, close to float64; so are statistics in training."""
    layer, pieces = variant.build(scale=0.3), texts(6, 6, 3, 6, 3, 0)
    with torch.no_grad():
        for value in layer.state_dict().values():  # rounds to numbers that bfloat16 holds
            value.copy_(value.bfloat16().double())
    x, ptr = torch.cat(pieces).bfloat16().double(), pointers(pieces)
    normalizes = any(isinstance(module, BatchNorm1d) for module in layer.modules())
    for training in [False, True][: 1 + normalizes]:
        tolerance = PRECISIONS[dtype][training]
        within = {"rtol": tolerance, "atol": tolerance}
        low = copy.deepcopy(layer.train(training)).to(dtype)
        expected, last = layer(x, ptr=ptr)
        given = x.to(dtype).requires_grad_()
        output, state = low(given, ptr=ptr)
        assert output.dtype == dtype
        close(output.double(), expected, **within)
        for name, part in variant.family.compared(last).items():
            found = named_parts(state)[name]
            if part.is_floating_point():
                assert found.dtype == (torch.float32 if name in variant.family.in_single else dtype)
            close(found.to(part), part, **within)
        for kept, wanted in zip(low.buffers(), layer.buffers(), strict=True):
            close(kept.to(wanted), wanted, **within)
        output.float().square().sum().backward()
        assert given.grad is not None and given.grad.dtype == dtype
        assert all(
            t.grad is not None and t.grad.isfinite().all() for t in (given, *low.parameters())
        )


@of_every
def test_reset_parameters(variant: Variant) -> None:
    """All change: constants return to their initial values, and a seed repeats the random ones."""
    torch.manual_seed(0)
    layer = variant.fresh()
    of_cells = [p for cell in layer.cells for p in cell.parameters()]
    assert len(of_cells) == len(list(layer.parameters()))  # none are shared
    before = {k: v.clone() for k, v in layer.state_dict().items()}
    constant = [k for k, v in variant.fresh().state_dict().items() if torch.equal(v, before[k])]
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(7.0)
    layer.reset_parameters()
    assert all((v != 7).any() for v in layer.state_dict().values())
    assert all(torch.equal(layer.state_dict()[k], before[k]) for k in constant)
    biases = {k for k in before if k.endswith("bias") and not k.endswith("lin_input.bias")}
    assert {*biases, *(k for k in before if "logit" in k)} <= set(constant)
    torch.manual_seed(0)
    for k, v in variant.fresh().state_dict().items():
        assert torch.equal(v, before[k])


@of_some
def test_frozen_parts(variant: Variant) -> None:
    """Only leaves that require a gradient get one, and it stays the same; in training as well."""
    layer, x = variant.build().train(), random_text(5, 2, SIZE)
    inputs = [x, *layer.parameters()]

    def only(wanted: list[Tensor]) -> list[Tensor]:
        for t in inputs:
            t.requires_grad_(any(t is w for w in wanted))
        return list(torch.autograd.grad(layer(x)[0].square().sum(), wanted))

    for t, gradient in zip(inputs, only(inputs), strict=True):
        close(only([t])[0], gradient)
    for t in inputs:
        t.requires_grad_(False)
    assert not layer(x)[0].requires_grad


@of_some
def test_tensors_without_numbers(variant: Variant) -> None:
    """A dry run on meta, or on fake tensors, gives the shapes and leaves nothing behind.

    Large models can be built on the meta device, without memory, and filled afterwards.
    """
    for how in (torch.device("meta"), FakeTensorMode()):
        with how:
            layer, x = variant.fresh(), torch.randn(5, 2, SIZE, requires_grad=True)
            mask = torch.ones(5, 2, dtype=torch.bool)
            for given in ({}, {"mask": mask}, {"lengths": [5, 2]}):
                output, _ = layer.train(not given)(x, layer.initial_state(2), **given)
                assert output.shape == (5, 2, variant.width)
                output.sum().backward()
    with torch.device("meta"):
        layer = variant.fresh()
    assert all(t.is_meta for t in (*layer.parameters(), *layer.buffers()))
    layer = layer.double().to_empty(device="cpu").eval()
    layer.reset_parameters()
    plain, x = variant.build(), random_text(5, 2, SIZE)
    assert layer(x)[0].isfinite().all()
    layer.load_state_dict(plain.state_dict())
    close(layer(x)[0], plain(x)[0])


@of_some
def test_nothing_is_overwritten(variant: Variant) -> None:
    """Neither no_grad, inference_mode nor a backward pass overwrites or changes any numbers."""
    layer, x = variant.build(), random_text(5, 2, SIZE)
    before = x.clone()
    output, state = layer(x.requires_grad_())
    kept = [part.detach().clone() for part in (output, *parts_of(state))]
    inputs = [x, *layer.parameters()]
    first, second = (
        torch.autograd.grad(output.square().sum(), inputs, retain_graph=True) for _ in range(2)
    )
    assert all(map(torch.equal, first, second))
    of_ones = torch.autograd.grad(output, inputs, torch.ones_like(output), retain_graph=True)
    close(torch.autograd.grad(output.sum(), inputs), of_ones)  # a single number, expanded
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            close(layer(x)[0], kept[0])
            if not layer.bidirectional:
                layer(x, state)
    layer(x)[0].mul_(2)  # callers may change outputs
    assert torch.equal(x, before)
    assert all(map(torch.equal, (output, *parts_of(state)), kept))


@of_every
@pytest.mark.filterwarnings("error")
def test_repr_names_options(variant: Variant) -> None:
    layer = variant.family.layer(3, 3, batch_first=True, **variant.options)
    of_cell = {k: v for k, v in variant.options.items() if k not in OF_LAYERS}
    shown = {layer: {**variant.options, "batch_first": True}, layer.cells[0]: of_cell}
    for made, options in shown.items():
        text = repr(made)
        assert text.startswith(f"{type(made).__name__}(3, 3") and "\n" not in text
        assert all(f"{name}={value!r}" in text for name, value in options.items())


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=str)
def test_lengths_of_small_types(dtype: torch.dtype) -> None:
    """Texts may be padded to more steps than the type can count."""
    layer, x, lengths = RCNN.layer(2, 3), torch.randn(300, 2, 2), torch.tensor([100, 120])
    torch.testing.assert_close(layer(x, lengths=lengths.to(dtype))[0], layer(x, lengths=lengths)[0])


# Derivatives of derivatives, and torch.func's transforms


def of_parameters(
    layer: Any, *state: Tensor, **keywords: Any
) -> tuple[Callable[..., Any], list[Tensor]]:
    """The layer as a function of inputs, state parts and parameters; and the latter two."""
    names = [name for name, _ in layer.named_parameters()]

    def call(x: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(names, tensors[len(state) :], strict=True))
        before = plain(tensors[: len(state)]) if state else None
        output, end = torch.func.functional_call(layer, given, (x, before), keywords)
        return output, *parts_of(end)[:2]

    leaves = (*state, *layer.parameters())
    return call, [t.detach().clone().requires_grad_() for t in leaves]


@of_derivatives
def test_second_derivatives(variant: Variant) -> None:
    """By texts, states and parameters, in training; first derivatives are tested elsewhere."""
    layer, state = variant.build().train(), []
    if not {"pooling", "bidirectional"} & {*variant.options}:  # which fix the states
        state = [random_text(*t.shape, seed=7) for t in parts_of(layer.initial_state(2))]
    call, leaves = of_parameters(layer, *state, ptr=torch.tensor([0, 2, 3]))
    x = random_text(3, SIZE).requires_grad_()
    assert torch.autograd.gradgradcheck(call, (x, *leaves), fast_mode=True)


@of_some
def test_transforms(variant: Variant) -> None:
    """By inputs and all parameters; in training, norms keep no statistics, as torch.func asks."""
    layer, x = variant.build(), random_text(4, 3, SIZE)
    call, leaves = of_parameters(layer)
    assert_torch_func(lambda *given: call(*given)[:1], x, *leaves)
    if any(isinstance(module, BatchNorm1d) for module in layer.modules()):
        torch.func.replace_all_batch_norm_modules_(layer.train())
        assert_torch_func(lambda *given: call(*given)[:1], x, *leaves, rtol=1e-9, atol=1e-10)


# Compiled, exported and in ONNX, with any number of steps and texts


class Layers(torch.nn.Module):
    """Layers side by side on the same texts; padding is given by lengths and a mask in turn."""

    def __init__(self, *layers: torch.nn.Module) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(layers).eval()

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, mask: Tensor | None = None
    ) -> list[Tensor]:
        forms = ({"lengths": lengths}, {"mask": mask})
        return [layer(x, **forms[k % 2])[0] for k, layer in enumerate(self.layers)]


def one_of_each() -> Layers:
    torch.manual_seed(0)
    return Layers(RCNN.layer(4, 5, decay="recurrent"), RKM.layer(4, 5), KBRN.layer(4, 5))


@pytest.mark.traces
def test_other_sizes_than_those_exported() -> None:
    layers = one_of_each()
    layers.layers[0] = RCNN.layer(4, 5, order=1, decay="input", bidirectional=True)
    sizes = ({0: Dim("steps", min=2, max=99), 1: Dim("texts", min=2, max=99)},)
    program = torch.export.export(layers, (torch.randn(6, 3, 4),), dynamic_shapes=sizes)
    x = torch.randn(9, 5, 4)
    torch.testing.assert_close(program.module()(x), layers(x))


def assert_same_compiled(layers: Layers, *calls: tuple[Tensor, ...], **settings: Any) -> None:
    """One graph gives the same outputs and gradients, and in training the same statistics."""
    plain = copy.deepcopy(layers.train())
    compiled = torch.compile(layers, fullgraph=True, backend="aot_eager", **settings)
    for given in calls:
        found = []
        for run, module in ((compiled, layers), (plain, plain)):
            outputs = run(*given)
            inputs = [given[0].requires_grad_(), *module.parameters()]
            slopes = torch.autograd.grad(sum(t.square().sum() for t in outputs), inputs)
            found.append([*outputs, *slopes, *module.buffers()])
        torch.testing.assert_close(*found)


@pytest.mark.traces
def test_compiles_in_one_graph() -> None:
    calls = [(torch.randn(steps, 3, 4, requires_grad=True),) for steps in (6, 9)]
    assert_same_compiled(one_of_each(), *calls, dynamic=True)


@pytest.mark.traces
def test_compiled_padding_is_zero_and_gives_no_gradient() -> None:
    """Running statistics count the tokens alone, whose number compilers do not know."""
    kbrn = KBRN.layer(3, 4, num_layers=2, bidirectional=True)
    kbrn.cells[0].activation.norm.momentum = None
    layers = Layers(
        RCNN.layer(3, 4, act="sigmoid"),
        RCNN.layer(3, 4, output_map=True, output_gate=True),
        RCNN.layer(3, 4, pooling="max", combine="add"),
        kbrn,
    )
    for layer in layers.layers[:3]:
        torch.nn.init.ones_(layer.cells[0].bias)
    calls = []
    for lengths in map(torch.tensor, ([6, 2, 0, 4], [1, 6, 3, 3], [0, 0, 0, 0])):
        mask = torch.arange(6).unsqueeze(1) < lengths
        calls.append((torch.randn(6, 4, 3, requires_grad=True), lengths, mask))
        assert not any(output[~mask].any() for output in copy.deepcopy(layers)(*calls[-1]))
    assert_same_compiled(layers, *calls)


@pytest.mark.traces
def test_packed_texts_compiled() -> None:
    packed = pack_sequence([torch.randn(n, 3) for n in (2, 5, 1)], enforce_sorted=False)
    for layer in (RCNN.layer(3, 4), RKM.layer(3, 4)):
        found = torch.compile(layer, backend="eager")(packed)[0]
        for given, expected in zip(found, layer(packed)[0], strict=True):
            torch.testing.assert_close(given, expected)


has_loops = pytest.mark.skipif(
    not hasattr(torch, "while_loop"), reason="loops of any length need torch.while_loop"
)


@pytest.mark.traces
@has_loops
def test_onnx() -> None:
    layers, sizes = one_of_each(), ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)
    layers.layers.append(KBRN.layer(4, 5, green="gaussian").eval())
    others = [(torch.randn(*shape, 4),) for shape in ((6, 3), (9, 1), (1, 5))]
    assert_same_in_onnx(layers, (torch.randn(6, 3, 4),), sizes, others)


@pytest.mark.traces
@has_loops
def test_onnx_of_padded_texts() -> None:
    torch.manual_seed(0)
    bidirectional = RCNN.layer(4, 5, decay="recurrent", bidirectional=True)
    extremes = RCNN.layer(4, 5, decay=0.5, pooling="max")
    others = []
    for lengths, steps in (([6, 0, 3], 6), ([9, 1, 0, 8, 4], 9)):
        mask = torch.rand(steps, len(lengths)) > 0.4
        others.append((torch.randn(steps, len(lengths), 4), torch.tensor(lengths), mask))
    any_size = Dim.DYNAMIC
    sizes = ({0: any_size, 1: any_size}, {0: any_size}, {0: any_size, 1: any_size})
    layers = Layers(bidirectional, KBRN.layer(4, 5), extremes, extremes)
    assert_same_in_onnx(layers, others[0], sizes, others)
    sums = RCNN.layer(4, 5, decay=0.5, pooling="max", combine="add")  # at a fixed number of steps
    assert_same_in_onnx(Layers(sums, sums), others[0], None, others[:1])


def test_traces_of_torchscript() -> None:
    """TensorBoard draws such traces; they hold the definitions, at one length."""
    for family, options in ((RCNN, {"decay": "recurrent"}), (RKM, {}), (KBRN, {})):
        layer = family.layer(4, 5, **options).eval()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", torch.jit.TracerWarning)
            traced = torch.jit.trace(layer, (torch.randn(6, 3, 4),))
        x = torch.randn(6, 3, 4)
        close(traced(x)[0], layer(x)[0], rtol=1e-5, atol=1e-6)


@of_some
def test_gradients_of_each_text_of_a_batch(variant: Variant) -> None:
    """vmap over texts, each of which has its own mask or its own length."""
    layer = variant.build().eval()
    x, lengths = random_text(4, 6, 1, SIZE), torch.tensor([6, 2, 0, 3])
    parameters = {name: p.detach() for name, p in layer.named_parameters()}

    def loss(parameters: Any, x: Tensor, length: Tensor, masked: bool) -> Tensor:
        padding = {"mask": torch.arange(6).unsqueeze(1) < length} if masked else {}
        padding = padding or {"lengths": length.view(1)}
        output, _ = torch.func.functional_call(layer, parameters, (x,), padding)
        return output.square().sum()

    for masked in (True, False):
        slope = torch.func.grad(partial(loss, masked=masked))
        found = torch.func.vmap(slope, (None, 0, 0))(parameters, x, lengths)
        for k, length in enumerate(lengths):
            expected = slope(parameters, x[k], length)
            close({name: each[k] for name, each in found.items()}, expected, 1e-9, 1e-10)
    with pytest.raises(ValueError, match="expected 0 to 6"):  # a length that can be read is checked
        torch.func.grad(partial(loss, masked=False))(parameters, x[0], torch.tensor(7))


# Hooks on parts of a layer are called, and weights computed from other weights are trained

HOOKS = [
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
]
FULL: Options = {"output_map": True, "output_gate": True, "highway": True}
PARTS: list[tuple[Family, Options, list[str]]] = [  # parts of a cell with these options
    (RCNN, {"decay": "input", **FULL}, ["lins.0", "output_gate_lin", "highway_lin", "output_lin"]),
    (RCNN, {"decay": "recurrent", **FULL}, ["decay_lin", "output_lin", "decay_recurrent"]),
    (RCNN, {"decay": "recurrent", **FULL}, ["output_gate_recurrent"]),
    (RKM, {"ngram": 2}, ["filters.forget", "recurrent.forget"]),
    (RKM, {"ngram": 4, "filters": "syncnet"}, ["filters.candidate"]),
    (RKM, {"cell": "general", "q": torch.nn.Tanh()}, ["q"]),
    (RKM, {"cell": "general", "q": torch.nn.Softplus(), "feedback": False}, ["q"]),
    (RKM, {"layer_norm": True}, ["norm"]),
    (KBRN, {"normalize": False, "scale": 0.3}, ["lin_input", "lin_recurrent", "activation"]),
    (KBRN, {"scale": 0.3}, ["activation.norm"]),
    (KBRN, {"green": "gaussian", "scale": 0.3}, ["lin_input", "lin_recurrent", "activation"]),
]
EACH = [(family, options, name) for family, options, names in PARTS for name in names]
WITHOUT_WEIGHT = {"filters.forget", "filters.candidate", "q", "activation"}
WEIGHTS = [part for part in EACH if part[2] not in WITHOUT_WEIGHT]


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # for h before the first token
@pytest.mark.parametrize(("family", "options", "name"), EACH)
def test_hooks(family: Family, options: Options, name: str) -> None:
    layer, x = Variant(family, options).build(), random_text(3, 2, SIZE)
    expected, _ = layer(x)
    module = layer.cells[0].get_submodule(name)
    takes_tensors = not name.startswith("filters")
    for register in HOOKS if takes_tensors else HOOKS[:2]:
        calls: list[int] = []
        handle = getattr(module, register)(lambda *_, calls=calls: calls.append(1))
        found, _ = layer(x.requires_grad_())
        close(found, expected)
        found.sum().backward()
        assert calls
        handle.remove()
    if takes_tensors:  # the layer goes on with what a hook returns
        module.register_forward_hook(lambda *args: 2 * args[2])
        assert not torch.allclose(layer(x)[0], expected)


CALLED = [name for name in EVERY if name.startswith("kbrn") or name in (
    "rcnn-recurrent", "rcnn-scalar-recurrent", "rcnn-both-ways-recurrent", "rcnn-input"
)]  # fmt: skip


@pytest.mark.parametrize("name", CALLED)
def test_parts_that_are_called_one_by_one_compute_the_equations(name: str) -> None:
    """Also at a step with a single text left, which BatchNorm1d by itself would refuse."""
    variant, calls = EVERY[name], []
    layer = variant.build()
    for part in layer.modules():
        part.register_forward_hook(lambda *_: calls.append(1))
    for training in [False, True][: 1 + name.startswith("kbrn")]:
        assert_equations(variant, layer.train(training), texts(4, 0, 3, 1), tolerance=10)
    assert calls


pruned = partial(prune.random_unstructured, name="weight", amount=0.0)


@pytest.mark.parametrize("change", [weight_norm, pruned], ids=["weight_norm", "pruned"])
@pytest.mark.parametrize(("family", "options", "name"), WEIGHTS)
def test_weights_made_of_others_are_trained(
    family: Family, options: Options, name: str, change: Callable[[torch.nn.Module], Any]
) -> None:
    """A weight computed anew in each call follows the parameters that it is computed from."""
    plain, layer = (Variant(family, options).build() for _ in range(2))
    x = random_text(5, 2, SIZE)
    change(layer.cells[0].get_submodule(name))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        layer(x)[0].square().sum().backward()
        optimizer.step()
    output, _ = layer(x)  # now every weight is up to date
    other = Variant(family, options).build()
    change(other.cells[0].get_submodule(name))
    other.load_state_dict(layer.state_dict())
    close(other(x)[0], output)
    state = {k: v for k, v in layer.state_dict().items() if k in plain.state_dict()}
    state[f"cells.0.{name}.weight"] = layer.cells[0].get_submodule(name).weight
    plain.load_state_dict(state)
    close(plain(x)[0], output)


def test_a_map_with_a_bias_is_no_matrix() -> None:
    rcnn = RCNN.layer(3, 4, output_map=True, decay="recurrent")
    lin = rcnn.cells[0].output_lin = torch.nn.Linear(4, 4)
    with pytest.raises(ValueError, match="adds a constant: expected a linear map without bias"):
        rcnn(torch.rand(5, 2, 3))
    torch.nn.init.zeros_(lin.bias)
    rcnn(torch.rand(5, 2, 3))
    rcnn.cells[0].output_lin = torch.nn.Sequential(lin, torch.nn.ReLU())
    with pytest.raises(ValueError, match="is not linear: expected a linear map"):
        rcnn(torch.rand(5, 2, 3))


def test_a_pruned_bias_is_loaded() -> None:
    layers = [KBRN.layer(3, 4) for _ in range(2)]
    for layer in layers:
        for name in ("weight", "bias"):
            prune.random_unstructured(layer.cells[0].lin_input, name, 0.5)
    layers[1].load_state_dict(layers[0].state_dict())
    x = torch.rand(5, 2, 3)
    close(layers[1](x)[0], layers[0](x)[0])


def test_patched_maps_are_called() -> None:
    rcnn = RCNN.layer(3, 4)
    lin = rcnn.cells[0].lins[0]
    lin.forward = lambda x: 0 * type(lin).forward(lin, x)  # as wrappers of modules do
    assert not rcnn(torch.rand(5, 2, 3))[0].any()


def test_hooked_maps_need_no_numbers() -> None:
    rcnn, x = RCNN.layer(3, 4, decay="recurrent"), torch.rand(5, 2, 3)
    pruned(rcnn.cells[0].decay_recurrent)
    traced = make_fx(lambda x: rcnn(x)[0])(x)
    close(traced(x), rcnn(x)[0])
    assert rcnn.to("meta")(x.to("meta"))[0].shape == (5, 2, 4)


class Doubled(KernelActivation):
    """A subclass of the activation, which must be called."""

    def forward(self, a: Tensor) -> Tensor:
        return 2 * super().forward(a)


HIDDEN = KBRN.hidden_size
OF_KBRN: Options = {"normalize": False, "num_centers": 5}
OWN: list[tuple[Family, Options, str, torch.nn.Module]] = [
    (KBRN, OF_KBRN, "activation", Sequential(Linear(HIDDEN, HIDDEN), torch.nn.PReLU())),
    (KBRN, OF_KBRN, "activation", Doubled(HIDDEN, 5)),
    *[
        (KBRN, OF_KBRN, name, module)
        for name, size in (("lin_recurrent", HIDDEN), ("lin_input", SIZE))
        for module in (Linear(size, HIDDEN), Sequential(Linear(size, HIDDEN), torch.nn.Tanh()))
    ],
    (KBRN, {}, "activation.norm", torch.nn.LayerNorm(HIDDEN)),
    (KBRN, {}, "activation.norm", torch.nn.Identity()),
    *[
        (RKM, {**kind, "feedback": feedback, "layer_norm": True}, "norm", torch.nn.Softsign())
        for kind in ({"cell": "general", "q": softsign}, *({"cell": c} for c in CELLS[:-1]))
        for feedback in (None, False)
    ],
]


@pytest.mark.parametrize(("family", "options", "name", "module"), OWN)
def test_a_module_of_ones_own_is_called(
    family: Family, options: Options, name: str, module: torch.nn.Module
) -> None:
    """It is called with the rows of each step, in place of a part of a cell."""
    variant = Variant(family, options)
    layer = variant.build()
    layer.cells[0].set_submodule(name, copy.deepcopy(module).double())
    assert_equations(variant, layer, texts(6, 0, 3, 1))
    assert_equations(variant, layer, texts(4, 4), ["grid"])
