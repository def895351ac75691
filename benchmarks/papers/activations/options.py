"""The options of the three experiments; nothing here imports torch."""

from dataclasses import dataclass
from itertools import product
from typing import ClassVar, Literal, get_args

from benchmarks.harness.errors import InputError
from benchmarks.harness.options import LARGEST_WIDTH, Device, Results, setting

MODELS = KBRN, RNN, LSTM = "kbrn", "rnn", "lstm"
FunctionName = Literal["or", "and", "xor", "equivalence"]
FUNCTIONS: tuple[FunctionName, ...] = get_args(FunctionName)
Init = Literal["random", "identity", "tanh", "relu"]


@dataclass(frozen=True, kw_only=True)
class Activation(Device, Results):
    """The learned activation and its training.

    Args:
        seeds: random seeds of the weights and of the training data, a trial for each
        max_iterations: most iterations of a trial; one that has not learned by then has failed
        init: activation at the start: small random coefficients, or close to a function
        init_range: range of the centres at the start
        affine: add a learned line to the function
        learning_rate: learning rate of Adam
    """

    green: ClassVar[Literal["relu", "abs"]] = "relu"  # function around a centre
    normalize: ClassVar[bool] = False  # whether to normalise the activation's input

    seeds: tuple[int, ...] = setting((0,), "seed", least=0, free=True)
    max_iterations: int = setting(10_000, "iterations", least=1, free=True)
    init: Init = setting("random")
    init_range: tuple[float, float] = setting((-2.0, 2.0))
    affine: bool = setting(False)
    learning_rate: float = setting(0.001, "lr", above=0)

    def check(self) -> None:
        low, high = self.init_range
        if low >= high:
            raise InputError(f"--init-range must be two increasing numbers, got {low:g} {high:g}")


@dataclass(frozen=True, kw_only=True)
class Xor(Activation):
    """Parity by one unit.

    Args:
        inputs: numbers of bits
        centers: numbers of centres of the learned activation
        l1: weights of the L1 penalty, the sum of absolute coefficients
    """

    green = "abs"

    inputs: tuple[int, ...] = setting((2, 4), least=2, most=16, free=True)
    centers: tuple[int, ...] = setting((50, 100, 300), least=1, most=LARGEST_WIDTH, free=True)
    l1: tuple[float, ...] = setting((0.0, 0.01), least=0, free=True)
    seeds: tuple[int, ...] = setting((0, 1, 2, 3, 4), "seed", least=0, free=True)
    max_iterations: int = setting(3000, "iterations", least=1, free=True)
    learning_rate: float = setting(0.003, "lr", above=0)


@dataclass(frozen=True, kw_only=True)
class Recurrent(Activation):
    """Recurrent networks on fresh sequences.

    Args:
        centers: number of centres of each learned activation
        batch_size: fresh sequences per iteration
    """

    centers: int = setting(100, least=1, most=LARGEST_WIDTH)
    batch_size: int = setting(500, least=2, most=1_000_000)
    affine: bool = setting(True)


@dataclass(frozen=True, kw_only=True)
class Charging(Recurrent):
    """The charging problem.

    Args:
        models: networks to compare
    """

    models: tuple[Literal["kbrn", "rnn", "lstm"], ...] = setting(MODELS, "model", free=True)
    centers: int = setting(20, least=1, most=LARGEST_WIDTH)
    init: Init = setting("identity")
    init_range: tuple[float, float] = setting((-2.0, 20.0))
    seeds: tuple[int, ...] = setting((0, 1, 2), "seed", least=0, free=True)


@dataclass(frozen=True, kw_only=True)
class LongTerm(Recurrent):
    """The first two bits of long sequences.

    Args:
        models: networks to compare
        functions: functions of the first two bits to learn
        lengths: numbers of bits in a sequence
        longer: further numbers of bits, at which the KBRN alone learns, and only equivalence
        hidden: number of hidden units
        clip: largest norm of the gradient; larger gradients are scaled down to it; 0: no limit
    """

    normalize = True

    models: tuple[Literal["kbrn", "lstm"], ...] = setting((KBRN, LSTM), "model", free=True)
    functions: tuple[FunctionName, ...] = setting(("or", "equivalence"), "function", free=True)
    lengths: tuple[int, ...] = setting((10,), "length", least=2, most=100_000, free=True)
    longer: tuple[int, ...] = setting((), least=2, most=100_000, free=True)
    hidden: int = setting(20, least=1, most=LARGEST_WIDTH)
    clip: float = setting(0.0, least=0)
    init: Init = setting("tanh")
    max_iterations: int = setting(3000, "iterations", least=1, free=True)

    def grid(self) -> list[tuple[int, str, str, int]]:
        """Length, function, model and seed of every trial, short sequences first."""
        cells = list(product(self.lengths, self.functions, self.models, self.seeds))
        if KBRN in self.models and "equivalence" in self.functions:
            cells += product(self.longer, ["equivalence"], [KBRN], self.seeds)
        return sorted(dict.fromkeys(cells), key=lambda cell: (cell[0], cell[-1]))
