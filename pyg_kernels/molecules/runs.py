"""What ``pyg-kernels`` does: train, explain, report."""

from __future__ import annotations

import hashlib
import json
import shutil
from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rdkit import Chem

from pyg_kernels.molecules.resuming import begin, begun_output, output_folder
from pyg_kernels.molecules.scores import METRICS, classification_scores, regression_scores
from pyg_kernels.molecules.splits import Part, check_split, split_name, splits
from pyg_kernels.molecules.store import MANIFEST
from pyg_kernels.molecules.targets import Targets
from pyg_kernels.molecules.training_data import (
    CHANGES,
    Data,
    Rows,
    Say,
    extra_numbers,
    read_data,
    read_rows,
)
from pyg_kernels.tables import FileError, TableWriter, find_column, read_table, stream_table

SETTINGS, SCORES, PREDICTIONS, TRAINING, MODEL, MEMBERS = (
    "run.json", "metrics.json", "predictions.csv", "training.csv", "model", "members",
)  # fmt: skip
ESTIMATOR_OPTIONS = (
    "ensemble_size", "epochs", "featurizer", "device", "batch_size", "learning_rate", "patience",
    "hidden_channels", "num_layers", "dropout", "standardize",
)  # fmt: skip
COVERAGE = 0.9  # of the intervals whose coverage is scored
DIGITS = 9  # significant ones of the numbers that are written


def train(options: Namespace, say: Say) -> None:
    """Trains on a table, scores on its test part, writes a run.

    Members are kept in the run as they are finished, until it is whole: ``--resume`` takes them up.

    Args:
        options: Of ``pyg-kernels train``.
        say: Prints one line.

    Raises:
        ValueError: On what cannot be read, split or learned.
    """
    out = begun_output(options, SETTINGS)
    check_split(options)
    start = Run(options.start_from, options.trust).estimator if options.start_from else None
    data = read_data(options, say)
    check_metrics(options.metric or [], data.targets.task)
    say(
        f"{len(data):,} molecules, {data.targets.task} of {', '.join(data.targets.names)}; "
        f"measured: {', '.join(map(str, (~np.isnan(data.targets.values)).sum(0)))}"
    )
    estimator, name = made_estimator(options, data.targets), split_name(options)
    estimator.check_arguments(start, options.freeze)
    parts = list(splits(data, options, say))
    begin(out, options, say)  # from here on, what an earlier run has left is gone
    if options.resume and (out / SETTINGS).is_file():
        say(f"{out} is finished")
        return
    if not options.resume:
        shutil.rmtree(out / MEMBERS, ignore_errors=True)
    (out / SETTINGS).unlink(missing_ok=True)  # it is written last: without it, this is no run
    scored, predicted = [], []
    for part in parts:
        models = ", ".join(options.model)
        say(f"{name}, {part.label}: fitting {models} to {len(part.fitted):,} molecules ...")
        estimator = made_estimator(options, data.targets)
        fit_part(estimator, data, part, start, options.freeze, out / MEMBERS)
        if len(part.test):
            test = data.molecules.part(part.test)
            found = predictions(estimator, data.targets, test, COVERAGE, say)
            scored += scores_of(data.targets, part.test, found, name, part.label)
            described = data.described(part.test).assign(part=part.label)
            predicted.append(pd.concat([described, pd.DataFrame(found).apply(rounded)], axis=1))
    estimator.save(out / MODEL, overwrite=True)
    tables = {
        PREDICTIONS: pd.concat(predicted),
        TRAINING: data.described(part.fitted)[["line", "smiles"]],
        **data.changes,
    }
    for file in CHANGES:  # of an earlier run
        (out / file).unlink(missing_ok=True)
    for file, table in tables.items():
        with TableWriter(out / file, overwrite=True) as writer:
            writer.write(table)
    settings = {
        "data": str(options.data),
        "task": data.targets.task,
        "targets": data.targets.names,
        "classes": data.targets.classes,
        "extra_columns": options.extra_columns,
        "model": options.model,
        "ensemble_size": options.ensemble_size,
        "split": name,
        "seed": options.seed,
    }
    _write_json(out / SCORES, {**settings, "scores": scored})
    _write_json(out / SETTINGS, settings)
    shutil.rmtree(out / MEMBERS, ignore_errors=True)
    print(_score_table(pd.DataFrame(scored), options.metric).to_string(index=False))
    say(f"wrote {out}: {', '.join([MODEL, SCORES, *tables])}")


def check_metrics(metrics: Sequence[str], task: str) -> None:
    """Refuses metrics of another task."""
    for name in metrics:
        if name not in METRICS[task]:
            raise ValueError(f"--metric {name}: scores of {task} are {', '.join(METRICS[task])}")


def made_estimator(options: Namespace, targets: Targets, **others: Any) -> Any:
    """The estimator of the options of ``pyg-kernels train``, not yet fitted."""
    from pyg_kernels.molecules import MoleculeClassifier, MoleculeRegressor

    kind = MoleculeRegressor if targets.classes is None else MoleculeClassifier
    given = {name: getattr(options, name) for name in ESTIMATOR_OPTIONS}
    return kind(
        model=options.model[0] if len(options.model) == 1 else options.model,
        random_state=options.seed,
        **{name: value for name, value in {**given, **others}.items() if value is not None},
    )


def fit_part(
    estimator: Any,
    data: Data,
    part: Part,
    start: Any = None,
    frozen: bool = False,
    checkpoint: Path | None = None,
) -> None:
    """Fits an estimator to the rows of a part."""
    estimator.fit(
        data.molecules.part(part.fitted),
        data.y(part.fitted),
        sample_weight=None if data.weight is None else data.weight[part.fitted],
        validation=part.valid,
        start_from=start,
        frozen=frozen,
        checkpoint=checkpoint,
    )


def predictions(estimator: Any, targets: Any, X: Any, coverage: float, say: Say) -> dict[str, Rows]:
    """Columns by name: of numbers mean, deviation and interval, of classes the probabilities."""
    number = len(X)
    if targets.classes is not None:
        found = estimator.predict_proba(X)
        columns = {}
        for place, (name, classes) in enumerate(zip(targets.names, targets.classes, strict=True)):
            one = len(targets.names) == 1
            known = estimator.classes_ if one else estimator.classes_[place]
            second = found[:, place]
            own = found if one else np.stack([1 - second, second], 1)
            for code, word in enumerate(classes):
                there = np.flatnonzero(np.asarray(known) == code)
                values = own[:, there[0]] if len(there) else np.zeros(number)
                columns[f"probability_{name}_{word}"] = values
        return columns
    mean, std = (values.reshape(number, -1) for values in estimator.predict(X, return_std=True))
    scale = estimator.interval_scale(coverage)
    for unknown in np.flatnonzero(np.isnan(scale)):
        say(f"warning: no intervals of {targets.names[unknown]}: too few validation measurements")
    half = scale * std
    values = np.stack([mean, std, mean - half, mean + half], 2).reshape(number, -1)
    kinds = ("predicted", "std", "low", "high")
    names = [f"{kind}_{name}" for name in targets.names for kind in kinds]
    return dict(zip(names, values.T, strict=True))


def scores_of(
    targets: Targets, rows: Rows, found: dict[str, Rows], split: str, label: str
) -> list[dict[str, Any]]:
    """The scores of each target on some rows."""
    scored = []
    for place, name in enumerate(targets.names):
        y = targets.values[rows, place]
        if targets.classes is None:
            columns = [found[f"{kind}_{name}"] for kind in ("predicted", "low", "high")]
            scores = regression_scores(y, *columns)
        else:
            words = targets.classes[place]
            columns = [found[f"probability_{name}_{word}"] for word in words]
            scores = classification_scores(y, np.stack(columns, 1))
        measured = int((~np.isnan(y)).sum())
        known = {metric: None if np.isnan(value) else value for metric, value in scores.items()}
        scored.append({"target": name, "split": split, "part": label, "test": measured, **known})
    return scored


def rounded(values: Rows) -> Rows:
    """Numbers of any shape with the significant digits that are written."""
    values = np.asarray(values, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        places = DIGITS - 1 - np.floor(np.log10(np.abs(values)))
        scale = 10.0 ** np.abs(places)  # exact up to 22 places: division by it rounds once
        found = np.where(
            places >= 0, np.rint(values * scale) / scale, np.rint(values / scale) * scale
        )
    return np.where(np.abs(places) <= 22, found, values)


def _score_table(scores: pd.DataFrame, wanted: list[str] | None) -> pd.DataFrame:
    """A line for each target and metric: mean and, over several splits, standard deviation."""
    known = [name for names in METRICS.values() for name in names if name in scores.columns]
    metrics = wanted or known
    lines = []
    for (target, split), rows in scores.groupby(["target", "split"], sort=False):
        for metric in metrics:
            values = pd.to_numeric(rows[metric]).dropna()
            line = {"target": target, "metric": metric, "mean": f"{values.mean():.4g}"}
            if len(rows) > 1:
                line["std"] = f"{values.std():.2g}"
            lines.append({**line, "split": split, "test": int(rows["test"].sum())})
    return pd.DataFrame(lines)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


class Run:
    """A finished run, or what an estimator has saved, whose targets are called y, or y0, y1, ...

    Args:
        folder: Where ``train`` or ``save`` wrote it.
        trust: Whether to import networks that are named by an import path.

    Raises:
        FileError: If it is neither.
    """

    def __init__(self, folder: str, trust: bool) -> None:
        from pyg_kernels.molecules import load

        self.folder = Path(folder)
        if self.folder.name == MODEL and (self.folder.parent / SETTINGS).is_file():
            self.folder = self.folder.parent
        self.names: list[str]
        self.classes: list[list[str]] | None = None
        if (self.folder / SETTINGS).is_file():
            settings = json.loads((self.folder / SETTINGS).read_text(encoding="utf-8"))
            self.names, self.classes = settings["targets"], settings["classes"]
            self.estimator = load(self.folder / MODEL, trust)
        elif (self.folder / MANIFEST).is_file():
            self.estimator = load(self.folder, trust)
            self._name_targets()
        else:
            raise FileError(f"{folder}: no finished run of pyg-kernels train, it has no {SETTINGS}")
        self.extra_columns: list[str] = self.estimator.columns_

    def _name_targets(self) -> None:
        estimator = self.estimator
        words = getattr(estimator, "each_classes_", None)
        number = estimator.task_.num_outputs if words is None else len(words)
        self.names = ["y"] if number == 1 else [f"y{place}" for place in range(number)]
        if words is not None:  # estimators of runs have the numbers of classes in their place
            self.classes = [[str(word) for word in each] for each in words]
            estimator.each_classes_ = [np.arange(len(each)) for each in words]
            codes = estimator.each_classes_
            estimator.classes_ = codes[0] if number == 1 else codes

    def digest(self) -> str:
        """The SHA-256 of the list of what was saved, and of its content."""
        folder = self.folder / MODEL if (self.folder / SETTINGS).is_file() else self.folder
        return hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()

    def training_smiles(self) -> list[str]:
        """The molecules that it has learned from, none if they are not known."""
        if (self.folder / TRAINING).is_file():
            return read_table(self.folder / TRAINING)["smiles"].tolist()
        kept = self.estimator.training_
        return [] if kept is None else list(kept[0].smiles)


def explain(options: Namespace, say: Say) -> None:
    """Writes a page of drawings and a table of the shares of atoms, bonds and walks."""
    out = output_folder(options.out, options.overwrite)
    run = Run(options.runs[0], options.trust)
    outputs = run.names
    if run.classes is not None and len(run.names) == 1 and len(run.estimator.classes_) > 2:
        outputs = [run.classes[0][int(code)] for code in run.estimator.classes_]
    target = options.target or outputs[0]
    if target not in outputs:
        raise ValueError(f"--target {target}: the run has {', '.join(outputs)}")
    with closing(stream_table(options.data, options.limit, encoding=options.encoding)) as frames:
        frame = next(frames)
    if not len(frame):
        raise FileError(f"{options.data}: there is no row below the header")
    column = find_column(frame.columns, options.smiles_column, options.data, "--smiles-column")
    molecules, frame = read_rows(frame, column, options.data, options.skip_invalid, say=say)
    X = molecules.with_extra(
        run.extra_columns, extra_numbers(frame, run.extra_columns, options.data)
    )
    say(f"explaining {target} of the first {len(X)} molecules ...")
    found = run.estimator.explain(X, k=options.walks, target=outputs.index(target))
    out.mkdir(parents=True, exist_ok=True)
    found.to_html(out / "explanation.html")
    with TableWriter(out / "explanation.csv", options.overwrite) as writer:
        writer.write(_shares(found, frame.index, target))
    say(f"wrote {out}: explanation.html, explanation.csv")


def _shares(found: Any, lines: Any, target: str) -> pd.DataFrame:
    """One row for each atom, bond and walk of each molecule, and one for what none of them adds."""
    rows = []
    for i, line in enumerate(lines):
        mol = Chem.MolFromSmiles(found.smiles[i])
        bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds()]
        parts: list[tuple[str, Any, float]] = [("constant", (), found.constant[i])]
        parts += [("atom", (atom,), share) for atom, share in enumerate(found.atoms[i])]
        parts += [("bond", bond, share) for bond, share in zip(bonds, found.bonds[i], strict=True)]
        parts += [("walk", atoms, share) for atoms, share in found.walks[i]]
        for kind, atoms, share in parts:
            symbols = "-".join(mol.GetAtomWithIdx(int(place)).GetSymbol() for place in atoms)
            places = "-".join(map(str, atoms))
            share = float(f"{share:.{DIGITS}g}")
            rows.append((line, found.smiles[i], target, kind, places, symbols, share))
    columns = ["line", "smiles", "target", "part", "atoms", "symbols", "share"]
    return pd.DataFrame(rows, columns=columns)


def report(options: Namespace, say: Say) -> None:
    """Prints one table of all runs below a folder."""
    folder = Path(options.data)
    if not folder.is_dir():
        raise FileError(f"{folder}: no such folder")
    tables = []
    for path in sorted(folder.rglob(SCORES)):
        if not (path.parent / SETTINGS).is_file():
            continue  # of another program, or of a run that was interrupted
        content = json.loads(path.read_text(encoding="utf-8"))
        table = _score_table(pd.DataFrame(content["scores"]), None)
        members = f" x {content['ensemble_size']}" * (content["ensemble_size"] > 1)
        table.insert(0, "model", " + ".join(content["model"]) + members)
        table.insert(0, "run", str(path.parent.relative_to(folder)))
        tables.append(table.assign(data=content["data"]))
    if not tables:
        raise FileError(f"{folder}: no finished run of pyg-kernels train below it")
    whole = pd.concat(tables).fillna("")
    if options.out:
        with TableWriter(options.out, options.overwrite) as writer:
            writer.write(whole)
    print(whole.to_string(index=False))


def example(options: Namespace, say: Say) -> None:
    """Writes a table with columns smiles and potency: see :class:`ChEMBLSulfonamides`."""
    from pyg_kernels.datasets import ChEMBLSulfonamides

    writer = TableWriter(options.out, options.overwrite)
    molecules = ChEMBLSulfonamides()
    potency = np.array([float(molecule.y) for molecule in molecules])
    with writer:
        writer.write(pd.DataFrame({"smiles": molecules.smiles, "potency": potency}))
    say(f"wrote {len(potency):,} molecules")
