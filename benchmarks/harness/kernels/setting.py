"""What is measured, in plain values: nothing here imports torch."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

OURS = "pyg_kernels"
OURS_FROM_LIST = "pyg_kernels, list of Data"
GRAKEL = "GraKeL"
WL_GRAM = "wl-gram"
WL_FEATURES = "wl-features"
WALK_GRAM = "walk-gram"
WL_MIN = "wl-min"
WL_MINMAX = "wl-minmax"
SEQUENCES = "sequences"
PATHS = "paths"
PROCESS = "gp"
ACCURACY = "accuracy"
REGRESSION = "regression"
GRAMS = (WL_GRAM, WL_MIN, WL_MINMAX, SEQUENCES, PATHS, WALK_GRAM)
TASKS = (*GRAMS, WL_FEATURES, PROCESS, ACCURACY, REGRESSION)
MUTAG = "MUTAG"
RANDOM_FEATURES = "random features"
EXACT_GRAM = "exact Gram matrix"
FEWEST_EXACT = 250  # molecules of the first exact Gram matrix, doubled while it fits


@dataclass(frozen=True)
class Setting:
    """What is measured and how.

    Args:
        dataset (str): ``'chembl'`` or ``'cep'``.
        root (str): Folder of the latter.
        molecules (int): Of the Weisfeiler-Lehman Gram matrix, drawn at random.
        iterations (int): Of Weisfeiler-Lehman.
        fewer (int): Of the other Gram matrices that GraKeL has; this library's also of all.
        sets: What classification is measured on.
        walk_molecules (int): Of the random-walk Gram matrix, drawn at random.
        edges (int): In the longest walks, GraKeL's `p`.
        decay (float): A factor for each edge of a walk, GraKeL's `lamda`.
        bond_labels (bool): Label bonds by all of their features.
        copies: How many times the data set is repeated for features.
        features: Numbers of random features.
        order (int): Nodes in a walk of the regression's kernel.
        gram_seconds (float): What the largest exact Gram matrix may take, with all that follows.
        gram_memory (float): Its memory in GiB.
        seed (int): Of what is drawn at random.
        device (str): A name that torch knows.
        threads (int, optional): CPU threads; ``None``: as many as torch takes.
        rounds (int): Calls at most; after ten seconds there are no more.
    """

    dataset: str = "chembl"
    root: str = "data/cep"
    molecules: int = 3000
    fewer: int = 300
    sets: tuple[str, ...] = (MUTAG,)
    iterations: int = 3
    walk_molecules: int = 10
    edges: int = 4
    decay: float = 0.1
    bond_labels: bool = False
    copies: tuple[int, ...] = (1, 2, 4, 8)
    features: tuple[int, ...] = (64, 256, 1024, 4096)
    order: int = 6
    gram_seconds: float = 30.0
    gram_memory: float = 2.0
    seed: int = 0
    device: str = "cpu"
    threads: int | None = None
    rounds: int = 3

    def settings(self) -> dict[str, Any]:
        """What a continuation must have in common with the folder, as JSON gives it back."""
        values = asdict(self)
        del values["root"]
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


@dataclass(frozen=True)
class Measurement:
    """One thing that is measured in a process of its own.

    Args:
        task (str): One of :data:`TASKS`.
        method (str): A library, or a way to do regression.
        size (int): Molecules, copies of the data set, or random features; 0 for all of a set.
    """

    task: str
    method: str
    size: int

    @property
    def name(self) -> str:
        """The name of its file."""
        method = "".join(letter if letter.isalnum() else "-" for letter in self.method.lower())
        return f"{self.task}_{method}_{self.size}"

    @property
    def title(self) -> str:
        """What is shown of it while it runs."""
        return f"{self.task} {self.size:,}, {self.method}"


def planned(setting: Setting, tasks: tuple[str, ...], number: int) -> Iterator[Measurement]:
    """All measurements of some tasks that are known beforehand.

    Exact Gram matrices of the regression are not: their sizes follow from the time they take.

    Args:
        setting: Sizes.
        tasks: Some of :data:`TASKS`.
        number (int): Molecules of the data set.
    """
    if WL_GRAM in tasks:
        largest = min(setting.molecules, number)
        for size in _fractions(largest, (4, 2, 1)):
            yield Measurement(WL_GRAM, OURS, size)
            if not setting.bond_labels:
                yield Measurement(WL_GRAM, GRAKEL, size)
        yield Measurement(WL_GRAM, OURS_FROM_LIST, largest)
    for task in (WL_MIN, WL_MINMAX, SEQUENCES, PATHS):
        if task in tasks:
            largest = min(setting.molecules, number)
            for size in sorted({min(setting.fewer, largest), largest}):
                yield Measurement(task, OURS, size)
                if task in (WL_MIN, PATHS) and size <= setting.fewer and not setting.bond_labels:
                    yield Measurement(task, GRAKEL, size)
    if WL_FEATURES in tasks:
        for copies in setting.copies:
            yield Measurement(WL_FEATURES, OURS, copies)
    if WALK_GRAM in tasks:
        largest = min(setting.walk_molecules, number)
        for size in _fractions(largest, (3, 1)):
            yield Measurement(WALK_GRAM, OURS, size)
            if not setting.bond_labels:
                yield Measurement(WALK_GRAM, GRAKEL, size)
        for size in _fractions(min(30 * largest, number), (9, 3, 1)):
            if size > largest:
                yield Measurement(WALK_GRAM, OURS, size)
    if PROCESS in tasks:
        yield Measurement(PROCESS, OURS, min(setting.molecules, number))
    if ACCURACY in tasks:
        for name in setting.sets:
            yield Measurement(ACCURACY, name, 0)
    if REGRESSION in tasks:
        for number_of_features in setting.features:
            yield Measurement(REGRESSION, RANDOM_FEATURES, number_of_features)


def _fractions(largest: int, divisors: tuple[int, ...]) -> list[int]:
    return sorted({max(1, largest // divisor) for divisor in divisors})
