"""What is measured and how, in plain values: nothing here imports torch."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from benchmarks.harness.errors import InputError
from benchmarks.harness.options import Device, Results, setting

OURS = "pyg_kernels"
OURS_FROM_LIST = "pyg_kernels, list of Data"
GRAKEL = "GraKeL"
Gram = Literal["wl-gram", "wl-min", "wl-minmax", "sequences", "paths", "walk-gram"]
Task = Literal[Gram, "wl-features", "gp", "accuracy", "regression"]
TASKS: tuple[Task, ...] = get_args(Task)
GRAMS: tuple[Gram, ...] = get_args(Gram)
MUTAG = "MUTAG"
RANDOM_FEATURES = "random features"
EXACT_GRAM = "exact Gram matrix"

ITERATIONS = 3  # of Weisfeiler-Lehman
EDGES = 4  # in the longest walks, GraKeL's p
DECAY = 0.1  # for each edge of a walk, GraKeL's lamda
ORDER = 6  # nodes in a walk of the regression's kernel
SEED = 0  # of what is drawn at random
EXACT_SIZES = (250, 500, 1000, 1750)  # molecules of the regression's exact Gram matrices
FEWER = 300  # molecules of the Gram matrices that are slow with GraKeL
# The cost of GraKeL's random walks grows with the cube of the product of two molecules' sizes.
WALK_MOLECULES = {"chembl": 10, "cep": 30}


@dataclass(frozen=True, kw_only=True)
class Kernels(Device, Results):
    """What is measured.

    Args:
        data: 1,017 sulfonamides from inside RDKit, or 29,978 molecules of the Clean Energy Project,
            downloaded
        root: folder of cep
        tasks: what to measure, see below
        sets: data sets of accuracy: MUTAG, which comes with GraKeL, or FILE:COLUMN, a table with a
            column smiles and classes in COLUMN
        bond_labels: label bonds by all of their features; GraKeL cannot read these and is left out
        molecules: largest number of molecules, drawn at random, but for random-walk Gram matrices
        walk_molecules: the same for random-walk Gram matrices beside GraKeL (chembl 10, cep 30)
        copies: numbers of copies of the data set in wl-features
        features: numbers of random features in regression
        rounds: largest number of calls, whose median time counts; none starts after 10 seconds
        threads: number of CPU threads (all that torch takes)
    """

    data: Literal["chembl", "cep"] = setting("chembl", "dataset")
    root: str = setting("data/cep", free=True)
    tasks: tuple[Task, ...] = setting(TASKS, free=True)
    sets: tuple[str, ...] = setting((MUTAG,), free=True)
    bond_labels: bool = setting(False)
    molecules: int = setting(3000, least=1)
    walk_molecules: int | None = setting(None, least=1)
    copies: tuple[int, ...] = setting((1, 2, 4, 8), least=1, most=1000, free=True)
    features: tuple[int, ...] = setting((64, 256, 1024, 4096), least=1, most=100_000, free=True)
    device: str = setting("auto")
    rounds: int = setting(3, least=1)
    threads: int | None = setting(None, least=1, most=1024)

    def check(self) -> None:
        if self.root != "data/cep" and self.data != "cep":
            raise InputError(f"--root goes with --data cep, not {self.data}")


@dataclass(frozen=True)
class Measurement:
    """One measurement, made in a process of its own."""

    task: Task  # one of :data:`TASKS`
    method: str  # A library, a set, or a way to do regression
    size: int  # molecules, copies of the data set, or random features; 0 for all of a set

    @property
    def name(self) -> str:
        method = "".join(letter if letter.isalnum() else "-" for letter in self.method.lower())
        name = f"{self.task}_{method}_{self.size:07}"
        if self.task != "accuracy" or self.method == MUTAG:
            return name
        return f"{name}-{hashlib.sha256(self.method.encode()).hexdigest()[:8]}"

    @property
    def title(self) -> str:
        return f"{self.task} {self.size:,}, {self.method}"


def planned(options: Kernels, number: int, train: int) -> Iterator[Measurement]:
    """All measurements on `number` molecules, of which `train` are for training; GraKeL's come
    before the measurements that are compared with them.
    """
    beside = not options.bond_labels
    largest = min(options.molecules, number)
    for size in _fractions(largest, 4, 2, 1):
        yield from _pair("wl-gram", size, beside)
    yield Measurement("wl-gram", OURS_FROM_LIST, largest)
    for task in TASKS[1:5]:
        for size in sorted({min(FEWER, largest), largest}):
            yield from _pair(task, size, beside and task in ("wl-min", "paths") and size <= FEWER)
    walks = min(options.walk_molecules or WALK_MOLECULES[options.data], number)
    for size in _fractions(walks, 3, 1):
        yield from _pair("walk-gram", size, beside)
    for size in _fractions(min(30 * walks, number), 9, 3, 1):
        if size > walks:
            yield Measurement("walk-gram", OURS, size)
    for copies in options.copies:
        yield Measurement("wl-features", OURS, copies)
    yield Measurement("gp", OURS, largest)
    for name in options.sets:
        yield Measurement("accuracy", name, 0)
    for features in options.features:
        yield Measurement("regression", RANDOM_FEATURES, features)
    for size in sorted({min(size, train) for size in EXACT_SIZES}):
        yield Measurement("regression", EXACT_GRAM, size)


def _pair(task: Task, size: int, beside: bool) -> Iterator[Measurement]:
    if beside:
        yield Measurement(task, GRAKEL, size)
    yield Measurement(task, OURS, size)


def _fractions(largest: int, *divisors: int) -> list[int]:
    return sorted({max(1, largest // divisor) for divisor in divisors})
