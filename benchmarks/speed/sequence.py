"""The sequence layers beside ``nn.LSTM``, ``nn.GRU`` and ``sru``, on random texts."""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness.table import Table
from benchmarks.speed.timing import Step, medians, products_step
from pyg_kernels.ops.ragged import Layout
from pyg_kernels.ops.scan.walk import Form, walk_scan
from pyg_kernels.sequence import RCNN

Shape = tuple[int, int, int]
#: Language modelling, documents, one long text by type of device: steps, texts, channels.
SHAPES: dict[str, tuple[Shape, ...]] = {
    "cpu": ((35, 20, 640), (256, 32, 300), (10_000, 1, 64)),
    "cuda": ((35, 256, 640), (256, 128, 512), (2048, 16, 512)),
}
#: Of the scan beside a copy.
SCAN_SHAPES: dict[str, tuple[Shape, ...]] = {
    "cpu": ((256, 32, 300),),
    "cuda": ((256, 128, 512), (2048, 32, 1024)),
}
RIVALS = ("nn.RNN", "nn.LSTM", "nn.GRU", "sru")


@dataclass(frozen=True)
class Contestant:
    """A layer, and how many square weights multiply one input, input by input."""

    name: str
    layer: nn.Module
    products: tuple[int, ...]


def contestants(channels: int) -> list[Contestant]:
    """Our layers and their rivals, of one hidden size; ``sru`` only where it is installed."""

    def rcnn(order: int, decay: float | str) -> nn.Module:
        return RCNN(channels, channels, order=order, decay=decay)

    found = [
        Contestant("RCNN order 1, input gate", rcnn(1, "input"), (2,)),
        Contestant("RCNN order 2, input gate", rcnn(2, "input"), (3,)),
        Contestant("RCNN order 2, constant", rcnn(2, 0.5), (2,)),
        Contestant("RCNN order 1, recurrent gate", rcnn(1, "recurrent"), (2, 1)),
        Contestant("nn.LSTM", nn.LSTM(channels, channels), (4, 4)),
        Contestant("nn.GRU", nn.GRU(channels, channels), (3, 3)),
    ]
    if importlib.util.find_spec("sru") is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it tries to compile its CUDA sources
            import sru

        found.append(Contestant("sru", sru.SRU(channels, channels, num_layers=1), (3,)))
    return found


def layer_step(layer: nn.Module, x: Tensor) -> Step:
    """One forward and backward of a layer, gradients of its input and parameters."""
    x = x.clone().requires_grad_()
    parameters = [p for p in layer.parameters() if p.requires_grad]
    seed = torch.randn_like(x)

    def run() -> None:
        torch.autograd.grad(layer(x)[0], [x, *parameters], seed, allow_unused=True)

    return run


def measure_sequence_layers(
    layers: Sequence[Contestant],
    shape: Shape,
    rounds: int,
    device: torch.device,
    limit: float = math.inf,
) -> list[dict[str, Any]]:
    """Times every layer and its bare products in one interleaved run."""
    steps, texts, channels = shape
    torch.manual_seed(0)
    x = torch.randn(shape, device=device)
    counts = sorted({c.products for c in layers})
    rows = x.view(steps * texts, channels)
    bare = [products_step(count, rows) for count in counts]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Running SRU on CPU")
        ours = [layer_step(c.layer.to(device), x) for c in layers]
        seconds = medians([*bare, *ours], rounds, device, limit)
    bare_seconds = dict(zip(counts, seconds, strict=False))
    by_name = {c.name: s for c, s in zip(layers, seconds[len(counts) :], strict=True)}
    return [
        {
            "layer": c.name,
            "milliseconds": 1e3 * by_name[c.name],
            "products_milliseconds": 1e3 * bare_seconds[c.products],
            "over_products": by_name[c.name] / bare_seconds[c.products],
            **{
                f"over_{name}": by_name[c.name] / by_name[name]
                for name in RIVALS
                if name in by_name
            },
        }
        for c in layers
    ]


def table(rows: Sequence[dict[str, Any]], shape: Shape) -> Table:
    """The rows as text."""
    rivals = [name for name in RIVALS if f"over_{name}" in rows[0]]
    caption = f"forward + backward, medians of interleaved rounds; (T, B, D) = {shape}"
    if "nn.GRU" in rivals and "sru" not in rivals and any("RCNN" in r["layer"] for r in rows):
        caption += "; sru is not installed"
    return Table(
        caption,
        ("layer", "ms", "products", "/ products", *(f"/ {name}" for name in rivals)),
        [
            (
                row["layer"],
                f"{row['milliseconds']:.2f}",
                f"{row['products_milliseconds']:.2f}",
                *(f"{row[f'over_{key}']:.3f}" for key in ("products", *rivals)),
            )
            for row in rows
        ],
    )


def measure_scan_bandwidth(
    rounds: int, device: torch.device, shape: Shape, limit: float = math.inf
) -> list[dict[str, Any]]:
    """The bytes that the scan has to move, over its time, beside a copy on the device.

    It reads a decay and an input of each order, and writes the states of each and the outputs.
    """
    source = torch.randn(shape[0] * shape[1], shape[2], device=device)
    target = torch.empty_like(source)
    runs: list[tuple[str, int, Step]] = [("copy", 2, lambda: target.copy_(source))]
    for order in (1, 2, 3):
        runs.append((f"scan, order {order}", 2 * order + 2, _scan_step(order, shape, device)))
    with torch.no_grad():
        seconds = medians([step for _, _, step in runs], rounds, device, limit)
    size = source.numel() * source.element_size()
    rates = [tensors * size / s for (_, tensors, _), s in zip(runs, seconds, strict=True)]
    return [
        {
            "run": name,
            "shape": named(shape),
            "milliseconds": 1e3 * s,
            "gigabytes_a_second": rate / 1e9,
            "of_copy": rate / rates[0],
        }
        for (name, _, _), s, rate in zip(runs, seconds, rates, strict=True)
    ]


def bandwidth_table(rows: Sequence[dict[str, Any]]) -> Table:
    """The rows of `measure_scan_bandwidth` as text."""
    return Table(
        f"forward, bytes that must move over time; {rows[0]['shape']}",
        ("run", "ms", "GB/s", "of a copy"),
        [
            (
                row["run"],
                f"{row['milliseconds']:.3f}",
                f"{row['gigabytes_a_second']:.0f}",
                f"{row['of_copy']:.2f}",
            )
            for row in rows
        ],
    )


def named(shape: Shape) -> str:
    """A shape as it is written on the command line."""
    return "x".join(str(number) for number in shape)


def _scan_step(order: int, shape: Shape, device: torch.device) -> Step:
    steps, texts, channels = shape
    layout = Layout.of_grid(steps, texts, device)
    form = Form(order, normalize=True, gate="values", width=channels)
    x = torch.rand(steps * texts, (1 + order) * channels, device=device)
    params = torch.zeros(4, channels, device=device)
    initial = torch.zeros(order, texts, channels, device=device)
    return lambda: walk_scan(form, layout, x, params, initial, initial[0])
