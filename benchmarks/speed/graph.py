"""The graph layers beside PyG's, on molecules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINEConv, ResGatedGraphConv

from benchmarks.harness.errors import as_input_error, naming_extras
from benchmarks.harness.table import Table
from benchmarks.speed.timing import Step, medians, products_step
from pyg_kernels.nn import GatedWalkConv, GraphKernelConv, RandomWalkConv, WLKernelConv

#: By type of device.
MOLECULES = {"cpu": 512, "cuda": 16_384}
#: Of a random molecule, about those of one of CEP: atoms, rings, features of a bond.
ATOMS, RINGS, BOND_FEATURES = 27, 6, 7


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


def layer_step(layer: nn.Module, graphs: Graphs) -> Step:
    """One forward and backward of a layer, gradients of its input and parameters."""
    x = graphs.x.clone().requires_grad_()
    parameters = [p for p in layer.parameters() if p.requires_grad]
    seeds: list[Tensor] = []
    both = {"return_states": True} if isinstance(layer, WLKernelConv) else {}

    def run() -> None:
        out = layer(x, graphs.edge_index, graphs.edge_attr, **both)
        outs = out if isinstance(out, tuple) else (out,)
        if not seeds:
            seeds.extend(torch.randn_like(o) for o in outs)
        torch.autograd.grad(outs, [x, *parameters], seeds)

    return run


def measure_graph_layers(
    graphs: Graphs, rounds: int, limit: float = math.inf
) -> list[dict[str, Any]]:
    """Times every layer and its bare products in one interleaved run."""
    device = graphs.x.device
    torch.manual_seed(0)
    layers = contestants(graphs.x.size(1), graphs.edge_attr.size(1))
    counts = sorted({c.products for c in layers})
    bare = [products_step(count, graphs.x) for count in counts]
    ours = [layer_step(c.layer.to(device), graphs) for c in layers]
    seconds = medians([*bare, *ours], rounds, device, limit)
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
    generator = torch.Generator().manual_seed(0)
    number = MOLECULES[device.type]
    if source == "random":
        num_nodes = number * ATOMS
        edge_index, edge_attr = random_molecules(number, generator)
    else:
        with naming_extras("mol,bench"), as_input_error():
            if source == "cep":
                from pyg_kernels.datasets import CEP

                molecules: Any = CEP(root)
            else:
                from pyg_kernels.datasets import ChEMBLSulfonamides

                molecules = ChEMBLSulfonamides()
            batch = molecules.batch(torch.arange(number) % len(molecules))
        num_nodes, edge_index, edge_attr = batch.num_nodes, batch.edge_index, batch.edge_attr
    x = torch.randn(num_nodes, channels, generator=generator)
    return Graphs(x.to(device), edge_index.to(device), edge_attr.to(device))


def random_molecules(number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Chains of atoms that random bonds close to rings of six, and each bond's one-hot type."""
    first = ATOMS * torch.arange(number).unsqueeze(1)
    closed = torch.rand(number, ATOMS - 5, generator=generator).argsort()[:, :RINGS]
    chain = torch.arange(ATOMS - 1).expand(number, -1)
    starts = (torch.cat((chain, closed), 1) + first).flatten()
    ends = (torch.cat((chain + 1, closed + 5), 1) + first).flatten()
    types = torch.randint(BOND_FEATURES, starts.shape, generator=generator).repeat(2)
    edge_index = torch.stack((torch.cat((starts, ends)), torch.cat((ends, starts))))
    return edge_index, torch.nn.functional.one_hot(types, BOND_FEATURES).float()


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
