"""Parity of two or four bits by one unit with a learned activation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from benchmarks.harness.activations.expansion import expansions
from benchmarks.harness.activations.pictures import Parity, parity_plot
from benchmarks.harness.activations.report import grouped, units_text, xor_table
from benchmarks.harness.activations.setting import Xor
from benchmarks.harness.activations.study import Record, Study
from benchmarks.harness.activations.trial import Trial, trained_network
from benchmarks.harness.table import Table
from pyg_kernels.nn import KernelActivation

CHECKED_EVERY = 100


class Unit(nn.Module):
    """``y = f(w z + b)``.

    Args:
        inputs (int): Numbers in z.
        activation: f, of one unit.

    Shapes:
        - input: (patterns, inputs)
        - output: (patterns,)
    """

    def __init__(self, inputs: int, activation: KernelActivation) -> None:
        super().__init__()
        self.lin = nn.Linear(inputs, 1)
        self.activation = activation

    def forward(self, z: Tensor) -> Tensor:
        return self.activation(self.lin(z)).squeeze(-1)

    def l1(self) -> Tensor:
        """The sum of the absolute coefficients."""
        return self.activation.l1()


@dataclass(frozen=True)
class XorTrial(Trial):
    """One unit on the parity of some bits.

    Args:
        inputs (int): Bits.
    """

    inputs: int

    @property
    def name(self) -> str:
        d, l1 = self.units.centers, self.optimization.l1
        return f"inputs{self.inputs}-d{d:03d}-l1-{l1:g}-seed{self.seed}"

    @property
    def title(self) -> str:
        return f"{self.kind}, l1 {self.optimization.l1:g}, seed {self.seed}"

    @property
    def kind(self) -> str:
        return f"{self.inputs} inputs, d = {self.units.centers}"

    @property
    def stops(self) -> bool:
        return False  # the functions are compared after as much training

    def identity(self) -> dict[str, Any]:
        centers, l1 = self.units.centers, self.optimization.l1
        return {"inputs": self.inputs, "centers": centers, "l1": l1}

    def network(self) -> nn.Module:
        activation = KernelActivation(
            1,
            self.units.centers,
            green=self.units.green,
            init=self.units.init,
            init_range=self.units.init_range,
            affine=self.units.affine,
            normalize=self.units.normalize,
        )
        return Unit(self.inputs, activation)

    def batch(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return self.test_set()

    def test_set(self) -> tuple[Tensor, Tensor]:
        return patterns(self.inputs, self.device)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        return (output - target).square().mean()

    def right(self, output: Tensor, target: Tensor) -> Tensor:
        return (output - target).abs() < 0.5

    def is_checked(self, iteration: int) -> bool:
        return iteration % CHECKED_EVERY == 0

    def is_learned(self, history: list[dict[str, Any]]) -> bool:
        return bool(history[-1]["accuracy"] == 1)

    def details(self, network: nn.Module, history: list[dict[str, Any]]) -> dict[str, Any]:
        assert isinstance(network, Unit)
        solved = [check["iteration"] for check in history if check["accuracy"] == 1]
        parity = _parity(network, self, "")
        error = parity.function(parity.inputs) - parity.targets
        low, high = float(parity.inputs.min()), float(parity.inputs.max())
        over_data = parity.function.variation(low, high)
        return {
            "solved_after": solved[0] if solved else None,
            "squared_error": float((error**2).mean()),
            "variation": parity.function.variation(),
            "variation_over_data": over_data,
            "variation_times_range": over_data * (high - low),
            "l1_norm": network.l1().item(),
        }


def patterns(inputs: int, device: str) -> tuple[Tensor, Tensor]:
    """All patterns of bits, -1 or 1, and whether an odd number of them is 1."""
    bits = torch.tensor(list(product((0.0, 1.0), repeat=inputs)), device=device)
    return 2 * bits - 1, bits.sum(dim=1) % 2


def xor_study(
    common: Xor,
    sizes: tuple[Iterable[int], Iterable[int], Iterable[float]],
    seeds: Iterable[int],
    most: int,
    device: str,
    out: Path,
) -> Study:
    """Every number of inputs, of centres and every weight of the regulariser, with every seed."""
    trials = [
        _trial(common, (inputs, centers, l1), seed, most, device)
        for (inputs, centers, l1), seed in product(product(*sizes), seeds)
    ]
    return Study(common.settings(), trials, out, XorReport())


class XorReport:
    """Figure 2 of the paper, and its numbers."""

    files = tuple(f"functions-{inputs}-inputs.png" for inputs in range(2, 17))

    def tables(self, settings: dict[str, Any], records: Sequence[Record]) -> list[Table]:
        """One row a kind of unit."""
        return [xor_table(_in_order(records), _caption(Xor.of(settings)))]

    def pictures(
        self, settings: dict[str, Any], records: Sequence[Record], folder: Path
    ) -> dict[str, Figure]:
        """The functions that the units of the smallest seed have learned."""
        common, pictures = Xor.of(settings), {}
        for of_inputs in grouped(_in_order(records), ("inputs",)):
            inputs = of_inputs[0]["inputs"]
            rows = []
            for of_weight in grouped(of_inputs, ("l1",)):
                first = [group[0] for group in grouped(of_weight, ("centers",))]
                rows.append([_drawn(common, record, folder) for record in first])
            title = f"One unit, parity of {inputs} bits; dots: targets"
            pictures[f"functions-{inputs}-inputs.png"] = parity_plot(rows, title)
        return pictures


def _drawn(common: Xor, record: Record, folder: Path) -> Parity:
    size = record["inputs"], record["centers"], record["l1"]
    trial = _trial(common, size, record["seed"], record["iterations"], "cpu")
    network = trained_network(trial, folder)
    assert isinstance(network, Unit)
    title = (
        f"d = {record['centers']}, l1 {record['l1']:g}, seed {record['seed']}\n"
        f"variation {record['variation']:.1f}{'' if record['learned'] else ', not solved'}"
    )
    return _parity(network, trial, title)


def _parity(network: Unit, trial: XorTrial, title: str) -> Parity:
    """The function of a unit, and its patterns before the activation, in float64."""
    z, targets = patterns(trial.inputs, "cpu")
    weight, bias = (p.detach().to("cpu", torch.float64) for p in network.lin.parameters())
    inputs = z.double() @ weight.squeeze(0) + bias
    (function,) = expansions(network.activation)
    return Parity(function, inputs.numpy(), targets.double().numpy(), title)


def _trial(
    common: Xor, size: tuple[int, int, float], seed: int, most: int, device: str
) -> XorTrial:
    inputs, centers, l1 = size
    units = replace(common.units, centers=centers)
    optimization = replace(common.optimization, l1=l1)
    return XorTrial("unit", seed, units, optimization, most, device, inputs)


def _in_order(records: Sequence[Record]) -> list[Record]:
    return sorted(records, key=lambda r: (r["inputs"], r["l1"], r["centers"], r["seed"]))


def _caption(common: Xor) -> str:
    return (
        "Parity of bits (-1 or 1) by one unit, y = f(w z + b), least squares on all patterns, "
        f"Adam {common.optimization.learning_rate:g}\n"
        f"f: {units_text(common.units, common.optimization)}\n"
        "solved: the nearest of 0 and 1 is right for all patterns at the end; after: iterations "
        f"until it first was, looked at every {CHECKED_EVERY}; variation of the slope: total, and "
        "between the least and the largest input of f, and that times their distance, which a "
        "larger w does not change; mean ± standard deviation over seeds"
    )
