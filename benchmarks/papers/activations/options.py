"""What the three experiments ask for; nothing here imports torch."""

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
        seeds: of the weights and of the training data
        max_iterations: of each trial, after which one that has not learned has failed
        init: what it is at the start, small random coefficients or near a function
        init_range: of the centres at the start
        affine: add a learned affine part
        learning_rate: of Adam
    """

    green: ClassVar[Literal["relu", "abs"]] = "relu"  # function around a centre
    normalize: ClassVar[bool] = False  # what enters the activation

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
        centers: numbers of centres
        l1: weights of the sum of absolute coefficients
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
        centers: of each learned activation
        batch_size: fresh sequences an iteration
    """

    centers: int = setting(100, least=1, most=LARGEST_WIDTH)
    batch_size: int = setting(500, least=2, most=1_000_000)
    affine: bool = setting(True)


@dataclass(frozen=True, kw_only=True)
class Charging(Recurrent):
    """The charging problem.

    Args:
        models: networks
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
        models: networks
        functions: of the first two bits
        lengths: bits a sequence
        longer: lengths at which equivalence alone is learned, by the KBRN alone
        hidden: units
        clip: largest norm of the gradient, 0 for any
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
