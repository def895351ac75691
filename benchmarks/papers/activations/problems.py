"""What is learned: parity, a system that is charged, the first two bits; and the networks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.papers.activations.expansion import Expansion, Floats, expansions
from benchmarks.papers.activations.options import KBRN, LSTM, Charging, LongTerm, Recurrent, Xor
from benchmarks.papers.activations.trial import TEST_SEED, Record, Trial
from pyg_kernels import sequence
from pyg_kernels.nn import KernelActivation

XOR_CHECKED_EVERY = 100
TEST_SEQUENCES = 2000  # of bits
BITS_CHECKED_EVERY = 50
LENGTH = 30  # of a sequence that charges
ENTRIES = 3  # of it that are not always 0
VALUES = 10  # an entry is below
CHARGING_TEST_SEQUENCES = 25_000
CHECKS_PER_DECADE = 10
RIGHT_CHECKS = 3  # so many checks in a row without an error end a trial that charges


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

    def l1(self) -> Tensor:
        """The sum of the absolute coefficients."""
        return self.activation.l1()


class SequenceNetwork(nn.Module):
    """A recurrent layer on one number a step, and an affine read-out of its state to a logit.

    Args:
        recurrent: A layer called as ``nn.RNN``.
        hidden_size (int): Its units.
        every_step (bool): Read out every step, not only the last one.

    Shapes:
        - input: (steps, sequences)
        - output: (steps, sequences), or (sequences,)
    """

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
            1,
            hidden_size,
            num_centers=options.centers,
            green=options.green,
            normalize=options.normalize,
            init=options.init,
            init_range=options.init_range,
            affine=options.affine,
        )
    elif model == LSTM:
        recurrent = nn.LSTM(1, hidden_size)
        with torch.no_grad():  # gates: input, forget, cell, output
            bias = recurrent.get_parameter("bias_ih_l0")
            bias[hidden_size : 2 * hidden_size] += 1.0
    else:
        recurrent = SigmoidRNN(1, hidden_size)
    return SequenceNetwork(recurrent, hidden_size, every_step)


@dataclass(frozen=True)
class Parity:
    """The function of a unit and what it has to do, in float64.

    Args:
        function: Learned.
        inputs: What the patterns give before the activation.
        targets: Of the patterns, 0 or 1.
    """

    function: Expansion
    inputs: Floats
    targets: Floats

    @classmethod
    def of(cls, network: nn.Module, inputs: int) -> "Parity":
        """That of a unit on this many bits."""
        assert isinstance(network, Unit)
        z, targets = patterns(inputs, "cpu")
        weight, bias = (p.detach().to("cpu", torch.float64) for p in network.lin.parameters())
        (function,) = expansions(network.activation)
        a = z.double() @ weight.squeeze(0) + bias
        return cls(function, a.numpy(), targets.double().numpy())


@dataclass(frozen=True)
class XorTrial(Trial):
    """One unit on the parity of some bits.

    Args:
        inputs (int): Bits.
        centers (int): Of the learned activation.
        l1 (float): Weight of the sum of its absolute coefficients.
    """

    inputs: int
    centers: int
    l1: float

    stops = False  # the functions are compared after as much training

    @property
    def l1_weight(self) -> float:  # type: ignore[override]
        return self.l1

    @property
    def name(self) -> str:
        return f"inputs{self.inputs}-d{self.centers:03d}-l1-{self.l1:g}-seed{self.seed}"

    @property
    def title(self) -> str:
        return f"{self.inputs} inputs, d = {self.centers}, l1 {self.l1:g}, seed {self.seed}"

    def identity(self) -> Record:
        return {"inputs": self.inputs, "centers": self.centers, "l1": self.l1}

    def network(self) -> nn.Module:
        options = self.options
        activation = KernelActivation(
            1,
            self.centers,
            green=options.green,
            init=options.init,
            init_range=options.init_range,
            affine=options.affine,
            normalize=options.normalize,
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
        return iteration % XOR_CHECKED_EVERY == 0

    def details(self, network: nn.Module, history: Sequence[Record]) -> Record:
        assert isinstance(network, Unit)
        solved = [one["iteration"] for one in history if one["accuracy"] == 1]
        parity = Parity.of(network, self.inputs)
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


@dataclass(frozen=True)
class ChargingTrial(Trial):
    """One hidden unit, read out at every step."""

    @property
    def name(self) -> str:
        return f"{self.model}-seed{self.seed}"

    @property
    def title(self) -> str:
        return f"{self.model}, seed {self.seed}"

    def network(self) -> nn.Module:
        return sequence_network(self.model, self.options, 1, every_step=True)

    def batch(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return self._sequences(self.options.batch_size, generator)

    def test_set(self) -> tuple[Tensor, Tensor]:
        generator = torch.Generator(self.device).manual_seed(TEST_SEED)
        return self._sequences(CHARGING_TEST_SEQUENCES, generator)

    def is_checked(self, iteration: int) -> bool:
        return iteration in log_spaced(self.options.max_iterations)

    def is_learned(self, history: Sequence[Record]) -> bool:
        last = history[-RIGHT_CHECKS:]
        return len(last) == RIGHT_CHECKS and all(one["accuracy"] == 1 for one in last)

    def _sequences(self, number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        device = self.device
        order = torch.rand(number, LENGTH, generator=generator, device=device)
        places = order.topk(ENTRIES, dim=1).indices
        values = torch.randint(VALUES, places.shape, generator=generator, device=device)
        x = torch.zeros(number, LENGTH, device=device)
        x.scatter_(1, places, values.float())
        x = x.t().contiguous()
        return x, charged(x).float()


def charged(x: Tensor) -> Tensor:
    """Equation 7: whether the system is charged after each step.

    Args:
        x: What it is charged by at each step, of shape (steps, sequences).
    """
    h = torch.zeros_like(x[0])
    states = []
    for step in x:
        h = step + (h - 1).clamp(min=0)
        states.append(h > 0)
    return torch.stack(states)


@cache
def log_spaced(most: int) -> set[int]:
    """Iterations at which accuracy is measured: 1, 2, 3, ..., ten a decade, the last one."""
    found = {most}
    power = 0
    while (iteration := round(10 ** (power / CHECKS_PER_DECADE))) < most:
        found.add(iteration)
        power += 1
    return found


@dataclass(frozen=True)
class LongTermTrial(Trial):
    """One function of the first two bits, one length.

    Args:
        function (str): ``'or'``, ``'and'``, ``'xor'`` or ``'equivalence'``.
        length (int): Bits a sequence.
    """

    function: str
    length: int

    @property
    def name(self) -> str:
        return f"{self.function}-T{self.length:03d}-{self.model}-seed{self.seed}"

    @property
    def title(self) -> str:
        return f"{self.function}, T = {self.length}, {self.model}, seed {self.seed}"

    def identity(self) -> Record:
        return {"function": self.function, "length": self.length}

    def network(self) -> nn.Module:
        return sequence_network(self.model, self.options, self.options.hidden, every_step=False)

    def batch(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        return self._sequences(self.options.batch_size, generator)

    def test_set(self) -> tuple[Tensor, Tensor]:
        generator = torch.Generator(self.device).manual_seed(TEST_SEED)
        return self._sequences(TEST_SEQUENCES, generator)

    def is_checked(self, iteration: int) -> bool:
        return iteration % BITS_CHECKED_EVERY == 0

    def _sequences(self, number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        shape = self.length, number
        bits = torch.randint(2, shape, generator=generator, device=self.device, dtype=torch.bool)
        return 2.0 * bits - 1, boolean_function(self.function, bits[0], bits[1]).float()


def boolean_function(name: str, first: Tensor, second: Tensor) -> Tensor:
    """A function of two bits."""
    if name == "or":
        return first | second
    if name == "and":
        return first & second
    return first ^ second if name == "xor" else ~(first ^ second)


def trials(options: Any, device: str) -> list[Trial]:
    """All trials that options ask for."""
    if isinstance(options, Xor):
        sizes = product(options.inputs, options.centers, options.l1, options.seeds)
        return [XorTrial(options, device, "unit", seed, n, d, l1) for n, d, l1, seed in sizes]
    if isinstance(options, Charging):
        pairs = product(options.seeds, options.models)
        return [ChargingTrial(options, device, model, seed) for seed, model in pairs]
    assert isinstance(options, LongTerm)
    return [
        LongTermTrial(options, device, model, seed, function, length)
        for length, function, model, seed in options.grid()
    ]
