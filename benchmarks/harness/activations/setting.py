"""How units are made and trained, in plain values: nothing here imports torch."""

from dataclasses import asdict, dataclass, fields
from itertools import product
from typing import Any, ClassVar, Literal, Self, get_args

KBRN = "kbrn"
LSTM = "lstm"
RNN = "rnn"
Green = Literal["relu", "abs", "gaussian"]
Init = Literal["random", "identity", "tanh", "relu"]
GREENS: tuple[Green, ...] = get_args(Green)
INITS: tuple[Init, ...] = get_args(Init)
FUNCTIONS = ("or", "and", "xor", "equivalence")


@dataclass(frozen=True)
class Units:
    """The learned activations, see :class:`pyg_kernels.nn.KernelActivation`."""

    centers: int
    green: Green = "relu"
    init: Init = "random"
    init_range: tuple[float, float] = (-2.0, 2.0)
    affine: bool = False
    normalize: bool = False


@dataclass(frozen=True)
class Optimization:
    """How a network is trained, by Adam.

    Args:
        learning_rate (float): Constant.
        batch_size (int): Fresh sequences an iteration.
        l1 (float): Weight of the sum of the coefficients' absolute values.
        clip (float): Largest norm of the gradient; 0: any.
        batch_statistics (bool): Normalise the test set by its own statistics, step by step, as in
            training; not by the running ones.
    """

    learning_rate: float = 0.001
    batch_size: int = 500
    l1: float = 0.0
    clip: float = 0.0
    batch_statistics: bool = True


@dataclass(frozen=True)
class Common:
    """What all trials of a results folder have in common.

    Args:
        units: The learned activations.
        optimization: How every network is trained.
    """

    experiment: ClassVar[str]

    units: Units
    optimization: Optimization

    def settings(self) -> dict[str, Any]:
        """As one flat dictionary that JSON can hold."""
        own = {name: value for name, value in asdict(self).items() if name not in NESTED}
        nested = {**asdict(self.units), **asdict(self.optimization)}
        return {"experiment": self.experiment, **own, **nested}

    @classmethod
    def of(cls, settings: dict[str, Any]) -> Self:
        """From what :meth:`settings` gave."""
        nested = {
            name: kind(**{one.name: settings[one.name] for one in fields(kind)})
            for name, kind in NESTED.items()
        }
        own = {one.name: settings[one.name] for one in fields(cls) if one.name not in NESTED}
        return cls(**nested, **own)


@dataclass(frozen=True)
class LongTerm(Common):
    """Of the long-term problem.

    Args:
        hidden (int): Units.
        forget_bias (float): Of the LSTM.
    """

    experiment: ClassVar[str] = "long-term"

    hidden: int
    forget_bias: float


@dataclass(frozen=True)
class Charging(Common):
    """Of the charging problem.

    Args:
        forget_bias (float): Of the LSTM.
    """

    experiment: ClassVar[str] = "charging"

    forget_bias: float


@dataclass(frozen=True)
class Xor(Common):
    """Of parity; each trial has centres and a weight of the l1 norm of its own."""

    experiment: ClassVar[str] = "xor"


NESTED = {"units": Units, "optimization": Optimization}


@dataclass(frozen=True)
class Grid:
    """Which trials of the long-term problem are made.

    Args:
        functions: Of the first two bits.
        lengths: Of the sequences.
        models: ``'kbrn'``, ``'lstm'``.
        seeds: Of the trials.
        iterations (int): At most, of each.
        longer: Lengths at which equivalence alone is learned, by the KBRN alone.
    """

    functions: tuple[str, ...]
    lengths: tuple[int, ...]
    models: tuple[str, ...]
    seeds: tuple[int, ...]
    iterations: int
    longer: tuple[int, ...] = ()

    def cells(self) -> list[tuple[int, str, str, int]]:
        """Length, function, model and seed of every trial, short sequences first."""
        cells = [
            (length, function, model, seed)
            for length, seed, function, model in product(
                self.lengths, self.seeds, self.functions, self.models
            )
        ]
        cells += [
            (length, FUNCTIONS[-1], KBRN, seed) for length, seed in product(self.longer, self.seeds)
        ]
        return sorted(dict.fromkeys(cells), key=lambda cell: cell[0])


GRIDS = {
    "quick": Grid(("or", "equivalence"), (10,), (KBRN, LSTM), (0,), 3000),
    "practical": Grid(FUNCTIONS, (10, 30, 50), (KBRN, LSTM), (0, 1, 2), 20_000, (60, 100)),
    "paper": Grid(
        FUNCTIONS,
        (5, 10, 20, 30, 40, 50),
        (KBRN, LSTM),
        (0, 1, 2, 3, 4),
        100_000,
        (60, 80, 100, 150, 200),
    ),
}
