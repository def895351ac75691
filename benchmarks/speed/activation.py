"""Learned activations beside the direct sum over their centres and PyTorch's activations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness.memory import PeakMemory
from benchmarks.harness.table import Table
from benchmarks.speed.timing import Step, medians
from pyg_kernels.nn import KernelActivation
from pyg_kernels.ops.expansion import GREENS

Shape = tuple[int, int]
#: Inputs of a unit and units, by type of device.
SHAPES: dict[str, Shape] = {"cpu": (10_000, 20), "cuda": (50_000, 64)}
#: Centres of a unit; on a GPU the direct sum's memory allows no more.
CENTERS: dict[str, tuple[int, ...]] = {"cpu": (10, 100, 300, 1000), "cuda": (10, 100)}
PLAIN: dict[str, Callable[[int], nn.Module]] = {
    "nn.ReLU": lambda units: nn.ReLU(),
    "nn.PReLU": nn.PReLU,
    "nn.Tanh": lambda units: nn.Tanh(),
}


@dataclass(frozen=True)
class Contestant:
    """A function of the inputs, and the parameters that get a gradient with them.

    Attributes:
        name: What it is.
        num_centers: Its centres, 0 for activations that have none.
        apply: The function.
        parameters: Its parameters.
    """

    name: str
    num_centers: int
    apply: Callable[[Tensor], Tensor]
    parameters: tuple[Tensor, ...]


def contestants(
    units: int, centers: Sequence[int], device: torch.device
) -> list[tuple[Contestant, Contestant | None]]:
    """Learned activations, each with the direct sum of the same parameters, and fixed ones."""
    found: list[tuple[Contestant, Contestant | None]] = []
    for green in GREENS:
        for count in centers:
            ours = KernelActivation(units, count, green).to(device)
            # As after training: centres are where they came to lie, neither sorted nor even.
            spacing = 4.0 / count
            ours.centers.data += spacing * torch.randn_like(ours.centers)

            def direct(a: Tensor, act: KernelActivation = ours) -> Tensor:
                return direct_sum(a, act)

            parameters = (ours.centers, ours.coefficients)
            found.append(
                (
                    Contestant(green, count, ours, parameters),
                    Contestant(f"{green}, direct sum", count, direct, parameters),
                )
            )
    for name, build in PLAIN.items():
        module = build(units).to(device)
        found.append((Contestant(name, 0, module, tuple(module.parameters())), None))
    return found


def direct_sum(a: Tensor, act: KernelActivation) -> Tensor:
    """A learned activation as the sum over all centres of each unit."""
    z = a.unsqueeze(-1) - act.centers
    if act.bandwidth is not None:
        z = torch.exp(z.square() * (-0.5 / act.bandwidth**2))
    else:
        z = torch.relu(z) if act.green == "relu" else torch.abs(z)
    return (z * act.coefficients).sum(-1)


def measure_activations(
    shape: Shape,
    centers: Sequence[int],
    rounds: int,
    device: torch.device,
    limit: float = math.inf,
) -> list[dict[str, Any]]:
    """Times every function forward and backward in one interleaved run, then reads its memory."""
    torch.manual_seed(0)
    inputs = torch.randn(shape, device=device)
    seed = torch.randn_like(inputs)
    pairs = contestants(shape[1], centers, device)
    flat = [c for pair in pairs for c in pair if c is not None]
    steps = {c: _step(c, inputs, seed) for c in flat}
    seconds = dict(zip(flat, medians(list(steps.values()), rounds, device, limit), strict=True))
    peaks = {c: _peak(steps[c], device) for c in flat}
    rows = []
    for ours, direct in pairs:
        row: dict[str, Any] = {
            "activation": ours.name,
            "num_centers": ours.num_centers,
            "milliseconds": 1e3 * seconds[ours],
            "peak_mebibytes": peaks[ours],
            "over_relu": seconds[ours] / seconds[flat[-len(PLAIN)]],
        }
        if direct is not None:
            row["direct_milliseconds"] = 1e3 * seconds[direct]
            row["direct_peak_mebibytes"] = peaks[direct]
            row["speedup"] = seconds[direct] / seconds[ours]
        rows.append(row)
    return rows


def table(rows: Sequence[dict[str, Any]], shape: Shape) -> Table:
    """The rows as text."""

    def cell(row: dict[str, Any], key: str, form: str) -> str:
        return format(row[key], form) if key in row else ""

    return Table(
        f"forward + backward, medians of interleaved rounds; {shape[0]:,} x {shape[1]} inputs; "
        "MiB: memory at the peak of a step, above that before it",
        (
            "activation",
            "centers",
            "ms",
            "direct sum",
            "times faster",
            "/ nn.ReLU",
            "MiB",
            "direct sum",
        ),
        [
            (
                row["activation"],
                str(row["num_centers"] or ""),
                cell(row, "milliseconds", ".2f"),
                cell(row, "direct_milliseconds", ".1f"),
                cell(row, "speedup", ".1f"),
                cell(row, "over_relu", ".1f"),
                cell(row, "peak_mebibytes", ".1f"),
                cell(row, "direct_peak_mebibytes", ".1f"),
            )
            for row in rows
        ],
    )


def _step(contestant: Contestant, inputs: Tensor, seed: Tensor) -> Step:
    """One forward and backward, gradients of the inputs and all parameters."""
    a = inputs.clone().requires_grad_()

    def run() -> None:
        torch.autograd.grad(contestant.apply(a), [a, *contestant.parameters], seed)

    return run


def _peak(step: Step, device: torch.device) -> float:
    with PeakMemory(device) as memory:
        step()
    peak = memory.peak if memory.gpu_peak is None else memory.gpu_peak
    return peak / 2**20
