"""``python -m benchmarks.speed graph``: how much time the layers take, and beside what.

Every figure is a median over rounds; in each round all layers run once, one after the other, so
that a slow moment of the machine falls on all of them. A layer stands beside its own bare matrix
products: ``torch.mm`` of its weights with inputs of the same shapes, weights that share an input
in one product, and the two products of each one's backward.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINEConv, ResGatedGraphConv

from benchmarks.harness.errors import InputError, as_input_error, naming_extras
from benchmarks.harness.table import Table
from pyg_kernels.nn import GatedWalkConv, GraphKernelConv, RandomWalkConv, WLKernelConv
from pyg_kernels.ops import backend

PROGRAM = "benchmarks.speed"
MOLECULES = 512


@dataclass(frozen=True)
class Graphs:
    """A batch of molecules with random node features of the layers' width."""

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor

    @property
    def shape(self) -> str:
        return (
            f"{self.x.size(0):,} nodes, {self.edge_index.size(1):,} edges, "
            f"{self.x.size(1)} channels"
        )


@dataclass(frozen=True)
class Contestant:
    """A layer with its bare products: how many weights multiply one input, input by input."""

    name: str
    layer: nn.Module
    products: tuple[int, ...]


def contestants(channels: int, edge_dim: int) -> list[Contestant]:
    """Our layers with bond features, and PyG's nearest."""

    def wl(gated: bool) -> nn.Module:
        return WLKernelConv(channels, gated=gated, edge_dim=edge_dim)

    mlp = nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, channels))
    return [
        Contestant("WLKernelConv gated", wl(True), (6, 1)),
        Contestant("WLKernelConv", wl(False), (4, 1)),
        Contestant("GatedWalkConv", GatedWalkConv(channels, channels, edge_dim=edge_dim), (4,)),
        Contestant("RandomWalkConv", RandomWalkConv(channels, channels, edge_dim=edge_dim), (2,)),
        Contestant(
            "GraphKernelConv", GraphKernelConv(channels, channels, edge_dim=edge_dim), (2, 1)
        ),
        Contestant("GINEConv (PyG)", GINEConv(mlp, edge_dim=edge_dim), (1, 1)),
        Contestant(
            "ResGatedGraphConv (PyG)",
            ResGatedGraphConv(channels, channels, edge_dim=edge_dim),
            (4,),
        ),
    ]


def layer_step(layer: nn.Module, graphs: Graphs) -> Callable[[], None]:
    """One forward and backward of a layer, gradients of its input and parameters."""
    x = graphs.x.clone().requires_grad_()
    parameters = [p for p in layer.parameters() if p.requires_grad]
    seeds: list[Tensor] = []

    def run() -> None:
        out = layer(x, graphs.edge_index, graphs.edge_attr)
        outs = out if isinstance(out, tuple) else (out,)
        if not seeds:
            seeds.extend(torch.randn_like(o) for o in outs)
        torch.autograd.grad(outs, [x, *parameters], seeds)

    return run


def products_step(counts: Sequence[int], like: Tensor) -> Callable[[], None]:
    """The forward product and the backward's two, for each input."""
    channels = like.size(1)
    operands = [
        (
            torch.randn_like(like),
            torch.randn(k * channels, channels, device=like.device, dtype=like.dtype),
            torch.randn(like.size(0), k * channels, device=like.device, dtype=like.dtype),
        )
        for k in counts
    ]

    def run() -> None:
        for x, weight, grad in operands:
            torch.mm(x, weight.t())
            torch.mm(grad, weight)
            torch.mm(grad.t(), x)

    return run


def medians(steps: Sequence[Callable[[], None]], rounds: int, device: torch.device) -> list[float]:
    """The median seconds of each step, over interleaved rounds after two that do not count."""
    seconds: list[list[float]] = [[] for _ in steps]
    for round_number in range(-2, rounds):
        for step, times in zip(steps, seconds, strict=True):
            _synchronise(device)
            start = time.perf_counter()
            step()
            _synchronise(device)
            if round_number >= 0:
                times.append(time.perf_counter() - start)
    return [statistics.median(times) for times in seconds]


def measure_graph_layers(graphs: Graphs, rounds: int) -> list[dict[str, Any]]:
    """Times every layer and its bare products in one interleaved run."""
    device = graphs.x.device
    torch.manual_seed(0)
    layers = contestants(graphs.x.size(1), graphs.edge_attr.size(1))
    counts = sorted({c.products for c in layers})
    bare = [products_step(count, graphs.x) for count in counts]
    ours = [layer_step(c.layer.to(device), graphs) for c in layers]
    seconds = medians([*bare, *ours], rounds, device)
    bare_seconds = dict(zip(counts, seconds, strict=False))
    by_name = {c.name: s for c, s in zip(layers, seconds[len(counts) :], strict=True)}
    return [
        {
            "layer": c.name,
            "milliseconds": 1e3 * by_name[c.name],
            "products_milliseconds": 1e3 * bare_seconds[c.products],
            "over_products": by_name[c.name] / bare_seconds[c.products],
            "over_gine": by_name[c.name] / by_name["GINEConv (PyG)"],
            "over_res_gated": by_name[c.name] / by_name["ResGatedGraphConv (PyG)"],
        }
        for c in layers
    ]


def load_graphs(source: str, root: str, channels: int, device: torch.device) -> Graphs:
    """The first molecules of a set, with their bonds' features and random node features."""
    with naming_extras(), as_input_error():
        if source == "cep":
            from pyg_kernels.datasets import CEP

            molecules: Any = CEP(root)
        else:
            from pyg_kernels.datasets import ChEMBLSulfonamides

            molecules = ChEMBLSulfonamides()
        batch = molecules.batch(torch.arange(MOLECULES))
    x = torch.randn(batch.num_nodes, channels, generator=torch.Generator().manual_seed(0))
    return Graphs(x.to(device), batch.edge_index.to(device), batch.edge_attr.to(device))


def table(rows: Sequence[dict[str, Any]], shape: str) -> Table:
    """The rows as text."""
    return Table(
        f"forward + backward, medians of interleaved rounds; {shape}",
        ("layer", "ms", "products", "/ products", "/ GINE", "/ ResGated"),
        [
            (
                row["layer"],
                f"{row['milliseconds']:.2f}",
                f"{row['products_milliseconds']:.2f}",
                *(f"{row[key]:.2f}" for key in ("over_products", "over_gine", "over_res_gated")),
            )
            for row in rows
        ],
    )


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {PROGRAM}",
        description="Forward and backward time of the layers beside their bare matrix products.",
    )
    parser.add_argument("what", choices=["graph"], help="which layers")
    parser.add_argument(
        "--molecules",
        choices=["cep", "chembl"],
        default="cep",
        help=f"{MOLECULES} molecules of CEP (downloaded unless in ROOT/raw) or of the ChEMBL "
        "assay inside RDKit (default: %(default)s)",
    )
    parser.add_argument("--root", default="data/cep", help="CEP's folder (default: %(default)s)")
    parser.add_argument("--channels", type=int, default=175, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=15, help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default: %(default)s)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    parser.add_argument("--out", help="folder for metrics.json")
    options = parser.parse_args(words)
    for name in ("channels", "rounds", "threads"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} {getattr(options, name)}: expected at least 1")
    return options


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = parse(list(sys.argv[1:] if words is None else words))
    try:
        device = _device(options.device)
        with as_input_error():
            if options.out:
                Path(options.out).mkdir(parents=True, exist_ok=True)
        torch.set_num_threads(options.threads)
        graphs = load_graphs(options.molecules, options.root, options.channels, device)
    except InputError as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return 2
    rows = measure_graph_layers(graphs, options.rounds)
    setting = {
        "molecules": f"{MOLECULES} of {options.molecules}",
        "shape": graphs.shape,
        "dtype": "float32",
        "device": str(device),
        "threads": options.threads,
        "torch": torch.__version__,
        "ops": backend(device),
    }
    print(", ".join(f"{key}: {value}" for key, value in setting.items()))
    print(table(rows, graphs.shape).text())
    if options.out:
        content = json.dumps({**setting, "layers": rows}, indent=2)
        (Path(options.out) / "metrics.json").write_text(content)
    return 0


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"--device {name}: expected cpu or cuda") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: no CUDA device is available")
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"--device {name}: expected cpu or cuda")
    return device


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    sys.exit(main())
