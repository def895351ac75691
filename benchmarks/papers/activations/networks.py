"""The networks, and the functions that they have learned, read in float64."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks.papers.activations.options import KBRN, LSTM, Recurrent
from pyg_kernels import sequence
from pyg_kernels.nn import KernelActivation

Floats = NDArray[np.float64]


class Unit(nn.Module):
    """``y = f(w z + b)`` with a learned f.

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


class SequenceNetwork(nn.Module):
    """A recurrent layer on one number a step, and an affine read-out of its state to a logit."""

    def __init__(self, recurrent: nn.Module, hidden_size: int, every_step: bool) -> None:
        super().__init__()
        self.recurrent = recurrent
        self.readout = nn.Linear(hidden_size, 1)
        self.every_step = every_step

    def forward(self, x: Tensor) -> Tensor:
        output, _ = self.recurrent(x.unsqueeze(-1))
        return self.readout(output if self.every_step else output[-1]).squeeze(-1)

    def activation(self) -> KernelActivation:
        """That of a KBRN."""
        activation = self.recurrent.get_submodule("cells.0").activation
        assert isinstance(activation, KernelActivation)
        return activation


class SigmoidRNN(nn.Module):
    """``h_t = sigmoid(W h_{t-1} + U x_t + b)``, called as ``nn.RNN`` without a state."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.lin_input = nn.Linear(input_size, hidden_size)
        self.lin_recurrent = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        inputs, states = self.lin_input(x), []
        h = inputs.new_zeros(inputs.shape[1:])
        for step in inputs.unbind():
            h = torch.sigmoid(step + self.lin_recurrent(h))
            states.append(h)
        return torch.stack(states), h


def sequence_network(
    model: str, options: Recurrent, hidden_size: int, every_step: bool
) -> SequenceNetwork:
    """A network with fresh weights; the forget bias of an LSTM is 1 larger than PyTorch's."""
    if model == KBRN:
        recurrent: nn.Module = sequence.KBRN(
            1, hidden_size, num_centers=options.centers, **activation_options(options)
        )
    elif model == LSTM:
        recurrent = nn.LSTM(1, hidden_size)
        with torch.no_grad():  # gates: input, forget, cell, output
            bias = recurrent.get_parameter("bias_ih_l0")
            bias[hidden_size : 2 * hidden_size] += 1.0
    else:
        recurrent = SigmoidRNN(1, hidden_size)
    return SequenceNetwork(recurrent, hidden_size, every_step)


def activation_options(options: Any) -> dict[str, Any]:
    """The arguments of a learned activation."""
    names = ("green", "normalize", "init", "init_range", "affine")
    return {name: getattr(options, name) for name in names}


@dataclass(frozen=True)
class Expansion:
    """``f(a) = sum_k coefficients_k g(a - centers_k) + slope a + intercept``."""

    green: str  # g: 'relu' or 'abs', so that f is piecewise linear
    centers: Floats  # (d,)
    coefficients: Floats  # (d,)
    slope: float = 0.0  # of the affine part
    intercept: float = 0.0  # of the affine part

    def __call__(self, a: Floats) -> Floats:
        distance = np.asarray(a)[..., None] - self.centers
        terms = np.abs(distance) if self.green == "abs" else np.maximum(distance, 0)
        return terms @ self.coefficients + self.slope * np.asarray(a) + self.intercept

    def kinks(self) -> tuple[Floats, Floats]:
        """Where the function changes its slope, and by how much; in order."""
        places, inverse = np.unique(self.centers, return_inverse=True)
        jumps = np.zeros_like(places)
        factor = 2.0 if self.green == "abs" else 1.0
        np.add.at(jumps, inverse.reshape(-1), factor * self.coefficients)
        return places, jumps

    def slopes(self, low: float, high: float) -> tuple[Floats, Floats]:
        """The pieces of ``[low, high]`` and the slope of each."""
        places, jumps = self.kinks()
        first = self.slope - (self.coefficients.sum() if self.green == "abs" else 0.0)
        slopes = first + np.concatenate([[0.0], np.cumsum(jumps)])
        inside = (places > low) & (places < high)
        begin = int(np.searchsorted(places, low, side="right"))
        ends = np.concatenate([[low], places[inside], [high]])
        return ends, slopes[begin : begin + len(ends) - 1]

    def variation(self, low: float = -np.inf, high: float = np.inf) -> float:
        """The total variation of the slope between two points."""
        places, jumps = self.kinks()
        return float(np.abs(jumps[(places > low) & (places < high)]).sum())


def expansions(activation: KernelActivation) -> list[Expansion]:
    """The function of every unit."""
    units, d = activation.num_units, activation.num_centers

    def rows(parameter: Tensor | None, columns: int) -> Floats:
        values = torch.zeros(columns) if parameter is None else parameter.detach().cpu()
        return values.double().reshape(-1, columns).expand(units, columns).numpy()

    centers, coefficients = rows(activation.centers, d), rows(activation.coefficients, d)
    slope, intercept = rows(activation.slope, 1), rows(activation.intercept, 1)
    each = zip(centers, coefficients, slope[:, 0], intercept[:, 0], strict=True)
    return [Expansion(activation.green, *unit) for unit in each]
