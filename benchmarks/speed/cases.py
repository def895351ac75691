"""What is timed: graph layers, sequence layers, activations, language models."""

import importlib.util
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import GINEConv, ResGatedGraphConv

from benchmarks.speed.timing import Case, Contestant, Step
from pyg_kernels.nn import (
    GatedWalkConv,
    GraphKernelConv,
    KernelActivation,
    RandomWalkConv,
    WLKernelConv,
)
from pyg_kernels.ops.edges import Edges
from pyg_kernels.ops.expansion import GREENS
from pyg_kernels.ops.neighbor_sum import neighbor_sum
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.walk import Form, walk_scan
from pyg_kernels.sequence import KBRN, RCNN, RKM, RKMCell

Layers = list[tuple[str, nn.Module, tuple[int, ...]]]  # name, layer, and products as in Contestant
Shape = tuple[int, int, int]  # steps, texts, channels
#: The shapes of each table, by type of device.
SHAPES: dict[str, dict[str, tuple[Shape, ...]]] = {
    "scan": {"cpu": ((256, 32, 300),), "cuda": ((256, 128, 512), (2048, 32, 1024))},
    "sequence": {
        "cpu": ((35, 20, 640), (256, 32, 300), (10_000, 1, 64)),
        "cuda": (
            *((35, 256, 640), (256, 128, 512), (2048, 16, 512)),
            *((100, 32, 64), (60, 640, 100), (2048, 16, 64)),  # narrow: products within kernels
        ),
    },
    "rkm": {
        "cpu": ((35, 20, 640), (256, 32, 300)),
        "cuda": ((35, 256, 640), (256, 128, 512), (100, 32, 64), (2048, 16, 64)),
    },
    "kbrn": {
        "cpu": ((50, 500, 20), (35, 20, 640), (256, 32, 300)),
        "cuda": ((50, 500, 20), (35, 256, 640)),
    },
}
RECURRENT = ("lstm", "rkm-lstm", "rkm-cifg", "ran", "linear-gated", "linear")
WITHOUT_FEEDBACK = ("lstm", "rkm-lstm", "rkm-cifg", "ran", "gated-cnn", "cnn")
CHANNELS = 175  # of graph layers
MOLECULES = {"cpu": 512, "cuda": 16_384}
ATOMS, RINGS, BOND_FEATURES = 27, 6, 7  # of a random molecule, about as many as in one of CEP
#: Inputs of a unit, units, and centres of a unit; on a GPU the direct sum limits the centres.
INPUTS = {"cpu": (10_000, 20), "cuda": (50_000, 64)}
CENTERS: dict[str, tuple[int, ...]] = {"cpu": (10, 100, 300, 1000), "cuda": (10, 100)}
LANGUAGE_MODELS = ("rcnn-5m", "lstm-5m")
WORDS = 10_000  # in the vocabulary, as in the Penn Treebank


def cases(name: str, shapes: Sequence[Shape], device: torch.device) -> Iterator[Case]:
    """The cases of a table; if no shapes are given, those of :data:`SHAPES` are used."""
    torch.manual_seed(0)
    if name in SHAPES:
        for shape in shapes or SHAPES[name][device.type]:
            yield scan_case(shape, device) if name == "scan" else text_case(name, shape, device)
    elif name == "graph":
        yield sum_case(MOLECULES[device.type], device)
        yield graph_case(MOLECULES[device.type], device)
    elif name == "activation":
        yield activation_case(INPUTS[device.type], CENTERS[device.type], device)
    else:
        yield language_case(device)


def sequence_layers(channels: int) -> Layers:
    """RCNNs and their rivals, all of one hidden size; ``sru`` only if it is installed."""
    rcnn = partial(RCNN, channels, channels)
    found: Layers = [
        ("RCNN order 1, input gate", rcnn(order=1, decay="input"), (2,)),
        ("RCNN order 2, input gate", rcnn(order=2, decay="input"), (3,)),
        ("RCNN order 2, constant", rcnn(order=2, decay=0.5), (2,)),
        ("RCNN order 1, recurrent gate", rcnn(order=1, decay="recurrent"), (2, 1)),
        ("nn.LSTM", nn.LSTM(channels, channels), (4, 4)),
        ("nn.GRU", nn.GRU(channels, channels), (3, 3)),
    ]
    if importlib.util.find_spec("sru") is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # sru tries to compile its CUDA sources
            import sru

        warnings.filterwarnings("ignore", message="Running SRU on CPU")
        found.append(("sru", sru.SRU(channels, channels, num_layers=1), (3,)))
    return found


def rkm_layers(channels: int) -> Layers:
    """Every cell, with feedback and without, and the layers that they replace."""
    found: Layers = []
    for cell, feedback in [*product(RECURRENT, (True,)), *product(WITHOUT_FEEDBACK, (False,))]:
        layer = RKM(channels, channels, cell=cell, feedback=feedback)
        (built,) = layer.cells
        assert isinstance(built, RKMCell)
        products = tuple(filter(None, (len(built.filters), len(built.recurrent))))
        name = f"{cell}, no feedback" if cell in RECURRENT and not feedback else cell
        found.append((name, layer, products))
    found.append(("nn.LSTM", nn.LSTM(channels, channels), (4, 4)))
    found.append(("nn.GRU", nn.GRU(channels, channels), (3, 3)))
    return found


def kbrn_layers(channels: int) -> Layers:
    """Learned activations of few and many centres, and the layers that they replace."""
    kbrn = partial(KBRN, channels, channels)
    return [
        *((f"KBRN, {n} centres", kbrn(num_centers=n), (1, 1)) for n in (10, 100, 1000)),
        ("KBRN, 100 centres, not normalised", kbrn(normalize=False), (1, 1)),
        ("nn.RNN", nn.RNN(channels, channels), (1, 1)),
        ("nn.LSTM", nn.LSTM(channels, channels), (4, 4)),
    ]


TEXT_LAYERS = {"sequence": sequence_layers, "rkm": rkm_layers, "kbrn": kbrn_layers}


def text_case(name: str, shape: Shape, device: torch.device) -> Case:
    """Layers on random texts, forward and backward."""
    x = torch.randn(shape, device=device)
    layers = TEXT_LAYERS[name](shape[2])
    contestants = [
        Contestant(name, text_step(layer.to(device), x), products)
        for name, layer, products in layers
    ]
    rivals = [c.name for c in contestants if c.name in ("nn.RNN", "nn.LSTM", "nn.GRU", "sru")]
    like = x.view(-1, shape[2])
    return Case(name, "x".join(map(str, shape)), contestants, rivals, like)


def text_step(layer: nn.Module, x: Tensor) -> Step:
    """One forward and backward pass of a layer, with gradients of its input and parameters."""
    return backward_step(lambda x: layer(x)[0], x, layer.parameters())


def backward_step(
    read: Callable[[Tensor], Any], x: Tensor, parameters: Iterable[Tensor], *seeds: Tensor
) -> Step:
    """One forward and backward pass, with gradients of the input and the parameters.

    `seeds` are the gradients of the outputs. If none are given, the first call draws them.
    """
    x = x.detach().clone().requires_grad_()
    inputs = [x, *(p for p in parameters if p.requires_grad)]
    given = list(seeds)

    def run() -> object:
        found = read(x)
        outputs = found if isinstance(found, tuple) else (found,)
        if not given:
            given.extend(map(torch.randn_like, outputs))
        return torch.autograd.grad(outputs, inputs, given, allow_unused=True)

    return run


def scan_case(shape: Shape, device: torch.device) -> Case:
    """The bytes that the scan has to move a second, beside those of a copy on the device.

    It reads one decay and an input of each order; it writes states of each order and outputs.
    """
    steps, texts, channels = shape
    source = torch.randn(steps * texts, channels, device=device)
    target = torch.empty_like(source)
    gigabytes = source.numel() * source.element_size() / 1e9
    contestants = [Contestant("copy", lambda: target.copy_(source), work=2 * gigabytes)]
    layout = Layout.of_grid(steps, texts, device)
    params = torch.zeros(4, channels, device=device)
    for order in (1, 2, 3):
        form = Form(order, normalize=True, gate="values", width=channels)
        x = torch.rand(steps * texts, (1 + order) * channels, device=device)
        initial = torch.zeros(order, texts, channels, device=device)
        scan = partial(walk_scan, form, layout, x, params, initial, initial[0])
        work = (2 * order + 2) * gigabytes
        contestants.append(Contestant(f"scan, order {order}", torch.no_grad()(scan), work=work))
    return Case("scan", "x".join(map(str, shape)), contestants, unit="gigabytes")


def graph_layers(channels: int, edge_dim: int) -> Layers:
    """Our layers with bond features, and the most similar layers of PyG."""
    mlp = nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, channels))
    both: dict[str, Any] = {"edge_dim": edge_dim}
    return [
        ("WLKernelConv gated", WLKernelConv(channels, gated=True, **both), (6, 1)),
        ("WLKernelConv", WLKernelConv(channels, gated=False, **both), (4, 1)),
        ("GatedWalkConv", GatedWalkConv(channels, channels, **both), (4,)),
        ("RandomWalkConv", RandomWalkConv(channels, channels, **both), (2,)),
        ("GraphKernelConv", GraphKernelConv(channels, channels, **both), (2, 1)),
        ("GINEConv (PyG)", GINEConv(mlp, **both), (1, 1)),
        ("ResGatedGraphConv (PyG)", ResGatedGraphConv(channels, channels, **both), (4,)),
    ]


def graph_case(number: int, device: torch.device, channels: int = CHANNELS) -> Case:
    """Layers on random molecules with random node features of the layers' width."""
    edge_index, edge_attr = edges = random_molecules(number, device)
    x = torch.randn(number * ATOMS, channels, device=device)

    def step(layer: nn.Module) -> Step:
        both = {"return_states": True} if isinstance(layer, WLKernelConv) else {}
        return backward_step(lambda x: layer(x, *edges, **both), x, layer.parameters())

    contestants = [
        Contestant(name, step(layer.to(device)), products)
        for name, layer, products in graph_layers(channels, edge_attr.size(1))
    ]
    size = f"random: {len(x):,} nodes, {edge_index.size(1):,} edges, {channels} channels"
    rivals = ("GINEConv (PyG)", "ResGatedGraphConv (PyG)")
    return Case("graph", size, contestants, rivals, x)


def sum_case(number: int, device: torch.device, channels: int = CHANNELS) -> Case:
    """Gated sums over the bonds of random molecules, and the same sums by PyTorch's ops."""
    (source, target), edge_attr = random_molecules(number, device)
    nodes, bond = number * ATOMS, edge_attr.argmax(1)
    x, seed = torch.randn(2, nodes, channels, device=device)
    shapes = [(nodes, channels)] * 2 + [(BOND_FEATURES, channels)] * 2
    parameters = [torch.randn(shape, device=device, requires_grad=True) for shape in shapes]
    gate_source, gate_target, gate_bond, factor = parameters

    def sorted_edges() -> Edges:
        return Edges(source, target, nodes, nodes, torch.eye(BOND_FEATURES, device=device), bond)

    def summed(z: Tensor, edges: Edges) -> Tensor:
        return neighbor_sum(z, edges, (gate_source, gate_target, gate_bond), factor)

    def plain(z: Tensor) -> Tensor:
        logits = gate_source.index_select(0, source) + gate_target.index_select(0, target)
        gate = torch.sigmoid(logits + gate_bond.index_select(0, bond))
        messages = gate * factor.index_select(0, bond) * z.index_select(0, source)
        return torch.zeros_like(z).index_add(0, target, messages)

    kept, rival = sorted_edges(), "index_select, sigmoid, mul, index_add"
    sums: dict[str, Callable[[Tensor], Tensor]] = {
        "neighbor_sum": lambda z: summed(z, kept),
        "neighbor_sum, edges sorted anew": lambda z: summed(z, sorted_edges()),
        rival: plain,
    }
    contestants = [
        Contestant(name, backward_step(read, x, parameters, seed)) for name, read in sums.items()
    ]
    size = f"gated sum: {nodes:,} nodes, {len(source):,} edges, {channels} channels"
    return Case("graph", size, contestants, (rival,))


def random_molecules(number: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Chains of atoms with random bonds that close rings of six, and each bond's one-hot type."""
    first = ATOMS * torch.arange(number).unsqueeze(1)
    closed = torch.rand(number, ATOMS - 5).argsort()[:, :RINGS]
    chain = torch.arange(ATOMS - 1).expand(number, -1)
    starts = (torch.cat((chain, closed), 1) + first).flatten()
    ends = (torch.cat((chain + 1, closed + 5), 1) + first).flatten()
    types = torch.randint(BOND_FEATURES, starts.shape).repeat(2)
    edge_index = torch.stack((torch.cat((starts, ends)), torch.cat((ends, starts))))
    return edge_index.to(device), F.one_hot(types, BOND_FEATURES).float().to(device)


def activation_case(shape: tuple[int, int], centers: tuple[int, ...], device: torch.device) -> Case:
    """Learned activations, each beside the direct sum with its parameters, and fixed ones."""
    inputs = torch.randn(shape, device=device)
    seed = torch.randn_like(inputs)
    units = shape[1]

    def step(function: Callable[[Tensor], Tensor], parameters: Iterable[Tensor]) -> Step:
        return backward_step(function, inputs, parameters, seed)

    contestants = []
    for green in GREENS:
        for count in centers:
            ours = KernelActivation(units, count, green).to(device)
            # As after training, the centres are neither sorted nor evenly spaced.
            ours.centers.data += 4.0 / count * torch.randn_like(ours.centers)
            parameters = (ours.centers, ours.coefficients)
            name = f"{green}, {count} centres"
            contestants.append(Contestant(name, step(ours, parameters)))
            direct = step(lambda a, act=ours: direct_sum(a, act), parameters)  # type: ignore[misc]
            contestants.append(Contestant(f"{name}, direct sum", direct))
    for module in (nn.ReLU(), nn.PReLU(units, device=device), nn.Tanh()):
        name = f"nn.{type(module).__name__}"
        contestants.append(Contestant(name, step(module, module.parameters())))
    size = f"{shape[0]}x{units}"
    return Case("activation", size, contestants, ("nn.ReLU",), memory=True)


def direct_sum(a: Tensor, act: KernelActivation) -> Tensor:
    """A learned activation as the sum over all centres of each unit."""
    z = a.unsqueeze(-1) - act.centers
    if act.bandwidth is not None:
        z = torch.exp(z.square() * (-0.5 / act.bandwidth**2))
    else:
        z = torch.relu(z) if act.green == "relu" else torch.abs(z)
    return (z * act.coefficients).sum(-1)


def language_case(device: torch.device, num_words: int = WORDS, hidden: int | None = None) -> Case:
    """Steps of training language models on random words, and their recurrent layers alone."""
    from benchmarks.harness.language_model.models import LanguageModel, fitted
    from benchmarks.harness.language_model.options import PRESETS

    contestants = []
    for name in LANGUAGE_MODELS:
        settings = PRESETS[name].training
        config = fitted(PRESETS[name], num_words, hidden)
        torch.manual_seed(0)
        model = LanguageModel(config).to(device)
        words = float(settings.batch_size * settings.steps)
        shape = (settings.steps, settings.batch_size, config.embedding_size)
        alone = text_step(model.encoder, torch.randn(shape, device=device))
        contestants.append(Contestant(name, language_step(model, settings), work=words))
        contestants.append(Contestant(f"{name}, layers alone", alone, work=words))
    lstm = nn.LSTM(config.hidden, config.hidden, config.num_layers).to(device)
    inputs = torch.randn(*shape[:2], config.hidden, device=device)
    contestants.append(Contestant("nn.LSTM alone", text_step(lstm, inputs), work=words))
    size = f"{settings.steps}x{settings.batch_size} words, {num_words:,} in the vocabulary"
    rivals = (LANGUAGE_MODELS[-1], "nn.LSTM alone")
    return Case("language", size, contestants, rivals, unit="words")


def language_step(model: Any, settings: Any) -> Step:
    """A step of training on a batch of random words: loss, gradient, clipping, optimiser.

    The state is carried from call to call, as from batch to batch.
    """
    from lightning.pytorch.utilities.memory import recursive_detach

    from benchmarks.harness.language_model.learner import build_optimizer

    optimizer = build_optimizer(settings, model.parameters())
    shape = (settings.steps + 1, settings.batch_size)
    words = torch.randint(model.config.num_words, shape, device=model.bias.device)
    state: list[Any] = [None]

    def run() -> None:
        optimizer.zero_grad()
        hidden, after, _ = model(words[:-1], state[0])
        state[0] = recursive_detach(after)
        loss = F.cross_entropy(model.scores(hidden.flatten(0, 1)), words[1:].flatten())
        (loss * settings.steps if settings.sum_steps else loss).backward()
        if settings.clip:
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()

    return run
