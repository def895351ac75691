"""Classification with each kernel by a support vector machine and nested cross-validation."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem, rdBase
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC
from torch_geometric.data import Data
from torch_geometric.io import read_tu_data

from benchmarks.harness.errors import InputError
from benchmarks.kernels.options import MUTAG
from pyg_kernels import kernels
from pyg_kernels.tables import find_column, read_table

OUTER, INNER = 10, 5  # folds
DEPTHS = range(5)
PENALTIES = tuple(10.0**k for k in range(-2, 4))  # C
MOST_MOLECULES = 1000  # of a file, drawn at random

_CHOICES: dict[str, Any] = {"output": "gram", "verbose": False}
_MINMAX = {**_CHOICES, "compare": "minmax"}
KERNELS: dict[str, Callable[[int], Any]] = {
    "WL, dot": lambda h: kernels.WLSubtreeKernel(h, normalize=True, **_CHOICES),
    "WL, min": lambda h: kernels.WLSubtreeKernel(h, compare="min", normalize=True, **_CHOICES),
    "WL, min-max": lambda h: kernels.WLSubtreeKernel(h, **_MINMAX),
    "label sequences, min-max": lambda h: kernels.LabelSequenceKernel(h + 1, **_MINMAX),
    "shortest paths, min-max": lambda h: kernels.ShortestPathKernel(h + 1, **_MINMAX),
}


def accuracies(name: str, seed: int) -> dict[str, Any]:
    """The mean and deviation over the outer folds of every kernel's accuracy."""
    graphs, y = mutag() if name == MUTAG else _of_file(name, seed)
    scores = {}
    for kernel, build in KERNELS.items():
        grams = [build(depth)(graphs).numpy() for depth in DEPTHS]
        scores[kernel] = nested(grams, y, seed)
    found = {kernel: [float(s.mean()), float(s.std())] for kernel, s in scores.items()}
    majority = float(np.bincount(y).max() / len(y))
    return {"molecules": len(y), "majority": majority, "accuracy": found}


def nested(grams: Sequence[NDArray[Any]], y: NDArray[Any], seed: int) -> NDArray[Any]:
    """The accuracy on each outer fold; inner folds of the rest choose depth and penalty."""
    folds = StratifiedKFold(OUTER, shuffle=True, random_state=seed)
    inner = StratifiedKFold(INNER, shuffle=True, random_state=seed)
    search = GridSearchCV(SVC(kernel="precomputed"), {"C": PENALTIES}, cv=inner)
    found = []
    for train, test in folds.split(y, y):
        rest = np.ix_(train, train)
        fitted = [clone(search).fit(gram[rest], y[train]) for gram in grams]
        depth = int(np.argmax([one.best_score_ for one in fitted]))
        found.append(fitted[depth].score(grams[depth][np.ix_(test, train)], y[test]))
    return np.array(found)


def mutag() -> tuple[list[Data], NDArray[Any]]:
    """The 188 molecules of GraKeL's own tests, with atom labels, and their classes."""
    package = find_spec("grakel")
    if package is None or package.origin is None:
        raise InputError("GraKeL is not installed: pip install grakel")
    folder = Path(package.origin).parent / "tests" / "data" / "MUTAG"
    if not folder.is_dir():
        raise InputError("this GraKeL comes without its tests' MUTAG")
    data, slices, _ = read_tu_data(str(folder), "MUTAG")
    nodes, edges = (pairwise(slices[key].tolist()) for key in ("x", "edge_index"))
    graphs = [
        Data(x=data.x[a:b].argmax(dim=1), edge_index=data.edge_index[:, c:d])
        for (a, b), (c, d) in zip(nodes, edges, strict=True)
    ]
    return graphs, data.y.numpy()


def rows_of(name: str) -> list[list[str]]:
    """The SMILES and the class of each row of FILE:COLUMN."""
    path, _, column = name.rpartition(":")
    if not path:
        raise InputError(f"--sets {name}: expected {MUTAG} or FILE:COLUMN")
    try:
        table = read_table(path)
        names = [find_column(table.columns, name, path) for name in ("smiles", column)]
        rows: list[list[str]] = table[names].fillna("").astype(str).to_numpy().tolist()
    except (OSError, ValueError) as error:
        raise InputError(f"--sets {name}: {error}") from None
    return rows


def _of_file(name: str, seed: int) -> tuple[list[Data], NDArray[Any]]:
    rows = rows_of(name)
    order = np.random.default_rng(seed).permutation(len(rows))
    with rdBase.BlockLogs():
        read = [Chem.MolFromSmiles(smiles) for smiles, _ in rows]
    known = [i for i in order if rows[i][1] and read[i] is not None and read[i].GetNumAtoms()]
    known = known[:MOST_MOLECULES]
    classes, y = np.unique([rows[i][1] for i in known], return_inverse=True)
    if not 2 <= len(classes) <= 20 or np.bincount(y).min() < OUTER:
        expected = f"expected 2 to 20, each of {OUTER} molecules"
        raise InputError(f"{name}: {len(classes)} classes; {expected}")
    return kernels.molecule_graphs([read[i] for i in known]), y
