"""Exact Gaussian processes on molecules with a split of their own, beside published results.

``python -m benchmarks.molecule_gp --help``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.arguments import OneLineParser, exit_status, integer
from benchmarks.harness.errors import InputError, as_input_error, naming_extras, naming_files
from benchmarks.harness.files import write_text
from benchmarks.harness.table import Table

PROGRAM = "benchmarks.molecule_gp"
LEVELS = {"50 %": 0.6745, "80 %": 1.2816, "95 %": 1.96}  # of a normal distribution, in deviations
MODELS = ("sum", "three", "wl", "fingerprints")
PUBLISHED = ("dataset", "algorithm", "descriptor", "rmse", "cliff_rmse")
NAMED = {"cep": "random", "ogbg-molesol": "official", "ogbg-molfreesolv": "official"}

EPILOG = """\
SET is a CSV with the columns smiles, y, split (train or test) and, optionally, cliff_mol (0 or 1),
as the files of MoleculeACE have them; or cep (random split, seed 0), ogbg-molesol or
ogbg-molfreesolv (official split), downloaded. sum: environments, label sequences, shortest paths
and descriptors. three: the first three of them, under one way to label atoms, for many molecules.
wl: environments alone. fingerprints: RDKit's counts of Morgan's environments up to
radius 3, atom pairs and topological torsions, in the same process. All weights and the noise are
learned by marginal likelihood on the training molecules; the test molecules are only predicted.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; the exit status: 0 done, 2 bad input, 130 interrupted."""
    return exit_status(PROGRAM, lambda: _run(parser().parse_args(arguments)))


def parser() -> argparse.ArgumentParser:
    """The options."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM}",
        description="Fits exact Gaussian processes with min-max kernels to sets of molecules.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("sets", nargs="+", metavar="SET", help="sets of molecules")
    models = ("sum", "wl", "fingerprints")
    parser.add_argument("--model", nargs="+", choices=MODELS, default=models, help="processes")
    parser.add_argument("--root", help="folder of cep (data/cep), or of the ogbg- sets (data/ogb)")
    parser.add_argument(
        "--published", type=Path, metavar="CSV", help=f"columns {', '.join(PUBLISHED)}"
    )
    parser.add_argument("--seed", type=integer(0), default=0, help="of the items to tune on (0)")
    parser.add_argument("--out", type=Path, metavar="JSON", help="also write the results here")
    return parser


def _run(options: argparse.Namespace) -> int:
    published = None if options.published is None else _table(options.published, PUBLISHED)
    if options.out is not None:
        with as_input_error():
            options.out.parent.mkdir(parents=True, exist_ok=True)
        if options.out.is_dir():
            raise InputError(f"--out {options.out} is a folder")
    sets = {
        name: _named(name, options.root) if name in NAMED else _parted(Path(name))
        for name in options.sets
    }
    rows: list[dict[str, Any]] = []
    for name, data in sets.items():
        file = Path(name)
        for model in options.model:
            try:
                with naming_extras("mol"):
                    found = measured(data, model, options.seed)
            except ValueError as error:  # such as a SMILES that does not parse
                raise InputError(f"{name}: {' '.join(str(error).split())}") from error
            rows.append({"set": file.stem, "model": model, **found})
            print(f"{file.stem} {model}: test RMSE {found['rmse']:.3f}", file=sys.stderr)
        if published is not None:
            here = published[published.dataset == file.stem]
            best = here.loc[here.rmse.idxmin()] if len(here) else None
            for name, row in (("best published", best), ("published SVM, ECFP", _svm(here))):
                if row is not None:
                    numbers = {"rmse": float(row.rmse), "cliff": float(row.cliff_rmse)}
                    rows.append({"set": file.stem, "model": name, **numbers})
    print(table(rows).text())
    if options.out is not None:
        with naming_files(options.out):
            write_text(options.out, json.dumps(rows, indent=1))
    return 0


def measured(data: Any, model: str, seed: int) -> dict[str, float]:
    """The errors and the coverage of one process on one set of molecules."""
    from torch_geometric.data import Data

    from pyg_kernels.kernels import (
        KernelGP,
        LabelSequenceKernel,
        ShortestPathKernel,
        WLSubtreeKernel,
        molecule_graphs,
        molecule_kernels,
    )

    train, y = (data.split == "train").to_numpy(), data.y.to_numpy(float)
    bonds: dict[str, Any] = {"edge_label": "edge_attr", "compare": "minmax"}
    kernels: dict[str, Callable[[], Any]] = {
        "sum": molecule_kernels,
        "three": lambda: [
            WLSubtreeKernel(4, **bonds),
            LabelSequenceKernel(6, **bonds),
            ShortestPathKernel(compare="minmax"),
        ],
        "wl": lambda: WLSubtreeKernel(3, **bonds),
        "fingerprints": _fingerprints,
    }
    begin, begin_cpu = time.perf_counter(), time.process_time()
    items = np.empty(len(data), dtype=object)
    if model == "fingerprints":
        items[:] = [Data(smiles=smiles) for smiles in data.smiles]
    else:
        items[:] = molecule_graphs(data.smiles)
    process = KernelGP(kernels[model](), random_state=seed).fit(items[train], y[train])
    mean, deviation = process.predict(items[~train], return_std=True)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    error = mean - y[~train]
    found = {"rmse": _rmse(error), "seconds": seconds, "cpu": cpu, "train": int(train.sum())}
    if "cliff_mol" in data and (cliff := data.cliff_mol.to_numpy()[~train] == 1).any():
        found["cliff"] = _rmse(error[cliff])
    inside = np.abs(error) / deviation
    return found | {name: float((inside < width).mean()) for name, width in LEVELS.items()}


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """All sets, and the mean of each model over them."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    columns = ("rmse", "cliff", *LEVELS, "seconds", "cpu")
    means = []
    for model in models:
        own = [row for row in rows if row["model"] == model]
        known = {c: [row[c] for row in own if c in row] for c in columns}
        mean = {c: float(np.mean(values)) for c, values in known.items() if values}
        means.append({"set": f"mean of {len(own)}", "model": model, **mean})
    cells = [
        [row["set"], row["model"], *(f"{row[c]:.3f}" if c in row else "" for c in columns)]
        for row in [*rows, *means]
    ]
    caption = (
        "test RMSE, on activity cliffs, coverage of intervals, seconds and CPU seconds with reading"
    )
    return Table(caption, ["set", "model", *columns], cells)


def _rmse(error: Any) -> float:
    return float(np.sqrt(np.mean(np.square(error))))


def _svm(published: Any) -> Any:
    own = published[(published.algorithm == "SVM") & (published.descriptor == "ECFP")]
    return own.iloc[0] if len(own) else None


def _table(file: Path, columns: Sequence[str] = ()) -> Any:
    import pandas as pd

    try:
        found = pd.read_csv(file)
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: {error}") from None
    missing = [name for name in columns if name not in found]
    if missing:
        raise InputError(f"{file} has no column {missing[0]!r}: expected {', '.join(columns)}")
    return found


def _parted(file: Path) -> Any:
    """The molecules of a CSV, of a training and a test part."""
    found = _table(file, ("smiles", "y", "split"))
    others = found.split[~found.split.isin(("train", "test"))]
    if len(others):
        raise InputError(f"{file}: split {others.iloc[0]!r}: expected train or test")
    for part in ("train", "test"):
        if not (found.split == part).any():
            raise InputError(f"{file} has no {part} molecules")
    return found


def _named(name: str, root: str | None) -> Any:
    """The molecules of a set that the harness knows, without the validation part."""
    import pandas as pd

    with naming_extras("mol"):
        from benchmarks.molecules.data import load_set
        from benchmarks.molecules.options import Options

        split = load_set(name, Options(data=[name], root=root)).split(NAMED[name], None)
    frames = []
    for part in ("train", "test"):
        smiles = [split.data.source.smiles[i] for i in split.parts[part]]
        y = split.targets(part)[:, 0]
        frames.append(pd.DataFrame({"smiles": smiles, "y": y, "split": part}))
    return pd.concat(frames, ignore_index=True)


def _fingerprints() -> list[Any]:
    """Kernels of RDKit's counts, from SMILES."""
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator as made  # noqa: N813
    from scipy import sparse

    from pyg_kernels.kernels.count_kernel import CountKernel
    from pyg_kernels.kernels.label_counts import LabelCounts

    generators = {
        **{f"Morgan {radius}": made.GetMorganGenerator(radius=radius) for radius in range(4)},
        "atom pairs": made.GetAtomPairGenerator(),
        "torsions": made.GetTopologicalTorsionGenerator(),
    }

    class Fingerprints(CountKernel):
        """Min-max of one kind of counts."""

        def __init__(self, kind: str) -> None:
            self.kind = kind
            self.compare, self.output, self.normalize = "minmax", "gram", False
            self.dtype, self.max_memory, self.verbose = None, 2**28, False

        def _count(self, items: Any, dtype: Any) -> LabelCounts:
            rows, labels, values = [], [], []
            generator = generators[self.kind]
            for row, item in enumerate(items):
                found = generator.GetSparseCountFingerprint(Chem.MolFromSmiles(item.smiles))
                for label, count in found.GetNonzeroElements().items():
                    rows.append(row)
                    labels.append(label)
                    values.append(count)
            known, columns = np.unique(np.array(labels, np.int64), return_inverse=True)
            shape = (len(items), len(known))
            matrix = sparse.csr_matrix((np.array(values, dtype), (rows, columns)), shape=shape)
            return LabelCounts([known], matrix, "cpu")

    return [Fingerprints(kind) for kind in generators]


if __name__ == "__main__":
    sys.exit(main())
