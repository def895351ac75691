"""What is learned: parity, a system that is charged, the first two bits; and the networks."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, product, takewhile
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness.study import Record
from benchmarks.papers.activations.expansion import Expansion, Floats, expansions
from benchmarks.papers.activations.options import KBRN, LSTM, Charging, LongTerm, Recurrent, Xor
from benchmarks.papers.activations.trial import Trial
from pyg_kernels import sequence
from pyg_kernels.nn import KernelActivation

XOR_CHECKED_EVERY, BITS_CHECKED_EVERY = 100, 50
LENGTH, ENTRIES, VALUES = 30, 3, 10  # of a sequence that charges; entries are below the last
CHECKS_PER_DECADE = 10
RIGHT_CHECKS = 3  # so many checks in a row without an error end a trial that charges
OF_TWO_BITS = {
    "or": operator.or_,
    "and": operator.and_,
    "xor": operator.xor,
    "equivalence": operator.eq,
}


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
        inputs = self.lin_input(x)
        h = inputs.new_zeros(inputs.shape[1:])
        states = []
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
            1, hidden_size, num_centers=options.centers, **_activation(options)
        )
    elif model == LSTM:
        recurrent = nn.LSTM(1, hidden_size)
        with torch.no_grad():  # gates: input, forget, cell, output
            bias = recurrent.get_parameter("bias_ih_l0")
            bias[hidden_size : 2 * hidden_size] += 1.0
    else:
        recurrent = SigmoidRNN(1, hidden_size)
    return SequenceNetwork(recurrent, hidden_size, every_step)


def _activation(options: Any) -> dict[str, Any]:
    names = ("green", "normalize", "init", "init_range", "affine")
    return {name: getattr(options, name) for name in names}


@dataclass(frozen=True)
class Parity:
    """The function of a unit and what it has to do, in float64."""

    function: Expansion  # learned
    inputs: Floats  # what the patterns give before the activation
    targets: Floats  # of the patterns, 0 or 1

    @classmethod
    def of(cls, network: Unit, inputs: int) -> "Parity":
        """That of a unit on this many bits."""
        z, targets = patterns(inputs, "cpu")
        weight, bias = (p.detach().to("cpu", torch.float64) for p in network.lin.parameters())
        (function,) = expansions(network.activation)
        a = z.double() @ weight.squeeze(0) + bias
        return cls(function, a.numpy(), targets.double().numpy())


class XorTrial(Trial):
    """One unit on the parity of some bits; its place has ``inputs``, ``centers`` and ``l1``."""

    checked_every = XOR_CHECKED_EVERY
    stops = False  # the functions are compared after as much training

    def network(self) -> nn.Module:
        activation = KernelActivation(1, self.place["centers"], **_activation(self.options))
        return Unit(self.place["inputs"], activation)

    def sequences(self, number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """All patterns, whatever the number."""
        return patterns(self.place["inputs"], self.device)

    def loss(self, network: Any, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Least squares, and the sum of absolute coefficients by its weight."""
        loss, weight = (output - target).square().mean(), self.place["l1"]
        return loss, loss + weight * network.activation.l1() if weight else loss

    def right(self, output: Tensor, target: Tensor) -> Tensor:
        return (output - target).abs() < 0.5

    def details(self, network: Any, history: Sequence[Record]) -> Record:
        solved = [one["iteration"] for one in history if one["accuracy"] == 1]
        parity = Parity.of(network, self.place["inputs"])
        error = parity.function(parity.inputs) - parity.targets
        low, high = float(parity.inputs.min()), float(parity.inputs.max())
        over_data = parity.function.variation(low, high)
        return {
            "solved_after": solved[0] if solved else None,
            "squared_error": float((error**2).mean()),
            "variation": parity.function.variation(),
            "variation_over_data": over_data,
            "variation_times_range": over_data * (high - low),
        }


def patterns(inputs: int, device: str) -> tuple[Tensor, Tensor]:
    """All patterns of bits, -1 or 1, and whether an odd number of them is 1."""
    bits = torch.tensor(list(product((0.0, 1.0), repeat=inputs)), device=device)
    return 2 * bits - 1, bits.sum(dim=1) % 2


class ChargingTrial(Trial):
    """One hidden unit, read out at every step."""

    test_sequences = 25_000

    def network(self) -> nn.Module:
        return sequence_network(self.model, self.options, 1, every_step=True)

    def is_checked(self, iteration: int) -> bool:
        return iteration in log_spaced(self.options.max_iterations)

    def is_learned(self, history: Sequence[Record]) -> bool:
        last = history[-RIGHT_CHECKS:]
        return len(last) == RIGHT_CHECKS and all(one["accuracy"] == 1 for one in last)

    def sequences(self, number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Charges, and whether the system is charged."""
        device = self.device
        order = torch.rand(number, LENGTH, generator=generator, device=device)
        places = order.topk(ENTRIES, dim=1).indices
        values = torch.randint(VALUES, places.shape, generator=generator, device=device)
        x = torch.zeros(number, LENGTH, device=device)
        x.scatter_(1, places, values.float())
        x = x.t().contiguous()
        return x, charged(x).float()


def charged(x: Tensor) -> Tensor:
    """Equation 7: whether the system is charged after each step."""
    h = torch.zeros_like(x[0])
    states = []
    for step in x:
        h = step + (h - 1).clamp(min=0)
        states.append(h > 0)
    return torch.stack(states)


@cache
def log_spaced(most: int) -> set[int]:
    """Iterations at which accuracy is measured: 1, 2, 3, ..., ten a decade, the last one."""
    spaced = (round(10 ** (power / CHECKS_PER_DECADE)) for power in count())
    return {most, *takewhile(lambda iteration: iteration < most, spaced)}


class LongTermTrial(Trial):
    """A function of the first two bits; its place has ``function`` and ``length``."""

    test_sequences, checked_every = 2000, BITS_CHECKED_EVERY

    def network(self) -> nn.Module:
        return sequence_network(self.model, self.options, self.options.hidden, every_step=False)

    def sequences(self, number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Bits, -1 or 1, and the function of the first two."""
        shape = self.place["length"], number
        bits = torch.randint(2, shape, generator=generator, device=self.device, dtype=torch.bool)
        target = OF_TWO_BITS[self.place["function"]](bits[0], bits[1])
        return 2.0 * bits - 1, target.float()


def trials(options: Any, device: str) -> list[Trial]:
    """All trials that options ask for."""
    if isinstance(options, Xor):
        sizes = product(options.inputs, options.centers, options.l1, options.seeds)
        return [
            XorTrial(options, device, "unit", seed, {"inputs": n, "centers": d, "l1": weight})
            for n, d, weight, seed in sizes
        ]
    if isinstance(options, Charging):
        pairs = product(options.seeds, options.models)
        return [ChargingTrial(options, device, model, seed) for seed, model in pairs]
    assert isinstance(options, LongTerm)
    return [
        LongTermTrial(options, device, model, seed, {"function": function, "length": length})
        for length, function, model, seed in options.grid()
    ]
