"""What ``pyg-kernels`` does: train, explain, report."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyg_kernels.molecules.files import (
    MISSING,
    FileError,
    TableWriter,
    Targets,
    find_column,
    numbers,
    output_folder,
    parse_molecules,
    read_chunks,
    read_table,
    read_targets,
)
from pyg_kernels.molecules.inputs import Molecules
from pyg_kernels.molecules.scores import METRICS, classification_scores, regression_scores

Say = Callable[[str], None]
Rows = NDArray[Any]
SETTINGS, SCORES, PREDICTIONS, TRAINING, MODEL = (
    "run.json", "metrics.json", "predictions.csv", "training.csv", "model",
)  # fmt: skip
COVERAGE = 0.9  # of the intervals whose coverage is scored
VALIDATION = 0.1  # the share of fitted rows whose groups are held out
DIGITS = 9  # significant ones of the numbers that are written


@dataclass(frozen=True)
class Data:
    """The rows of a table that training reads.

    Attributes:
        X: What estimators take.
        targets: What they learn.
        molecules: RDKit's.
        smiles: As in the file.
        lines: Their lines in the file.
        weight: Of the rows, or None.
        parts: The cells of the split column, or None.
        groups: The cells of the groups column, or None.
    """

    X: Any
    targets: Targets
    molecules: list[Any]
    smiles: list[str]
    lines: Rows
    weight: Rows | None
    parts: list[str] | None
    groups: Rows | None

    @property
    def y(self) -> Rows:
        """The targets as estimators take them, ``(n,)`` or ``(n, T)``."""
        values = self.targets.values
        return values[:, 0] if values.shape[1] == 1 else values


def train(options: Namespace, say: Say) -> None:
    """Trains on a table, scores on its test part, writes a run.

    Args:
        options: Of ``pyg-kernels train``.
        say: Prints one line.

    Raises:
        ValueError: On what cannot be read, split or learned.
    """
    out = output_folder(options.out, options.overwrite)
    if out.is_dir() and any(out.iterdir()) and not (out / SETTINGS).is_file():
        raise FileError(f"{out} is no run: --overwrite does not replace it")
    if (options.split == "column") != (options.split_column is not None):
        raise ValueError("--split column and --split-column go together")
    if options.split == "column" and (options.folds or options.repeats > 1):
        raise ValueError("--split column is one split: leave --folds and --repeats out")
    if options.groups_column and options.split != "random":
        raise ValueError("--groups-column is a split of its own: leave --split out")
    data = _read_training(options, say)
    known = METRICS[data.targets.task]
    for name in options.metric or []:
        if name not in known:
            raise ValueError(
                f"--metric {name}: scores of {data.targets.task} are {', '.join(known)}"
            )
    say(
        f"{len(data.smiles):,} molecules, {data.targets.task} of {', '.join(data.targets.names)}; "
        f"measured: {', '.join(map(str, (~np.isnan(data.targets.values)).sum(0)))}"
    )
    scored, predicted, estimator, seen = [], [], None, np.arange(0)
    name, groups = _split_name(options), _groups(data, options)
    for label, fitted, valid, test in _splits(data, groups, options):
        _warn_of_duplicates(data, fitted, test, say)
        say(f"{name}, {label}: fitting {', '.join(options.model)} to {len(fitted):,} molecules ...")
        if valid is None:
            valid = _whole_groups(groups, fitted, options.seed, say)
        estimator, seen = _fit(data, options, fitted, valid), fitted
        found = predictions(estimator, data.targets, _rows(data.X, test), COVERAGE, say)
        scored += _scores(data.targets, test, found, name, label)
        predicted.append(_described(data, test, found, label))
    if options.folds or options.repeats > 1:
        say("fitting the model that is kept to all molecules ...")
        seen = np.arange(len(data.smiles))
        estimator = _fit(data, options, seen, _whole_groups(groups, seen, options.seed, say))
    out.mkdir(parents=True, exist_ok=True)
    (out / SETTINGS).unlink(missing_ok=True)  # it is written last: without it, this is no run
    assert estimator is not None
    estimator.save(out / MODEL, overwrite=options.overwrite)
    writes = [(PREDICTIONS, pd.concat(predicted)), (TRAINING, _training_table(data, seen))]
    for file, table in writes:
        with TableWriter(out / file, options.overwrite) as writer:
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
    print(_score_table(pd.DataFrame(scored), options.metric).to_string(index=False))
    say(f"wrote {out}: {MODEL}, {SCORES}, {PREDICTIONS}")


def _read_training(options: Namespace, say: Say) -> Data:
    path = options.data
    frame = read_table(path, options.encoding)
    columns = list(frame.columns)
    smiles = find_column(columns, options.smiles_column, path, "--smiles-column")
    for option in ("target_columns", "extra_columns", "weight_column", "groups_column",
                   "split_column"):  # fmt: skip
        given = getattr(options, option) or []
        for column in [given] if isinstance(given, str) else given:
            find_column(columns, column, path, "--" + option.replace("_", "-"))
    molecules, valid = parse_molecules(frame, smiles, path, options.skip_invalid)
    _say_skipped(frame, valid, path, say)
    frame = frame[valid]
    if not len(frame):
        raise FileError(f"{path}: no molecule can be read")
    targets = read_targets(frame, options.target_columns, options.task, path)
    for name, words in zip(targets.names, targets.classes or [], strict=False):
        taken = [word for word in words if word.lower() in MISSING]
        if taken:
            say(f"warning: {', '.join(taken)} is a class of {name}: empty cells are missing ones")
        if len({word.lower() for word in words}) < len(words):
            say(f"warning: classes of {name} differ in case only: {', '.join(words)}")
    measured = targets.values[~np.isnan(targets.values)]
    if targets.classes is None and not options.task and set(measured) <= {0.0, 1.0}:
        say("all targets are 0 or 1: for classes, --task classification")

    def cells(column: str | None) -> Any:
        return None if column is None else frame[column].astype(str).to_numpy()

    weight = options.weight_column and numbers(frame, options.weight_column, path)
    return Data(
        _features(frame, smiles, options.extra_columns, path),
        targets,
        molecules,
        frame[smiles].tolist(),
        frame.index.to_numpy(),
        weight,
        cells(options.split_column),
        cells(options.groups_column),
    )


def _say_skipped(frame: pd.DataFrame, valid: Rows, path: str, say: Say) -> None:
    lines = frame.index[~valid]
    if len(lines):
        shown = ", ".join(map(str, lines[:20])) + (", ..." if len(lines) > 20 else "")
        say(f"warning: {path}: {len(lines)} invalid SMILES left out, lines {shown}")


def _features(frame: pd.DataFrame, smiles: str, extra: list[str], path: str) -> Any:
    """SMILES, or a table of them with extra columns."""
    if not extra:
        return frame[smiles].tolist()
    columns = {name: numbers(frame, name, path) for name in extra}
    for name, values in columns.items():
        if np.isnan(values).any():
            line = frame.index[int(np.isnan(values).argmax())]
            raise FileError(f"{path}, line {line}: no number in the extra column {name!r}")
    return pd.DataFrame({"smiles": frame[smiles].tolist(), **columns})


def _rows(X: Any, rows: Rows) -> Any:
    if isinstance(X, Molecules):
        return X.part(rows)
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else [X[row] for row in rows]


def _split_name(options: Namespace) -> str:
    kind = f"groups of {options.groups_column}" if options.groups_column else options.split
    if options.folds:
        return f"{kind}, {options.folds} folds" + f" x {options.repeats}" * (options.repeats > 1)
    if options.split == "column":
        return f"column {options.split_column}"
    sizes = "/".join(f"{fraction:g}" for fraction in options.fractions)
    return f"{kind}, {sizes}" + f", {options.repeats} times" * (options.repeats > 1)


def _groups(data: Data, options: Namespace) -> Rows | None:
    """What stays whole when rows are divided: groups, scaffolds, or None for single rows."""
    from pyg_kernels.chem import murcko_scaffolds

    if options.split == "scaffold":
        return np.array(murcko_scaffolds(data.smiles))
    return data.groups


def _whole_groups(groups: Rows | None, fitted: Rows, seed: int, say: Say) -> Rows | None:
    """The positions among the fitted rows of groups drawn for validation.

    They are drawn in a random order and kept as long as they do not exceed their share; the
    smallest one if all do. None, for single rows drawn by the estimator, if there are no groups.
    """
    if groups is None:
        return None
    names, group, sizes = np.unique(groups[fitted], return_inverse=True, return_counts=True)
    if len(names) < 2:
        say(f"warning: one group is fitted, {names[0]}: its validation part is drawn from it")
        return None
    room = max(VALIDATION * len(fitted), float(sizes.min()))
    drawn = []
    for place in np.random.default_rng(seed).permutation(len(names)):
        if sizes[place] <= room:
            drawn.append(place)
            room -= sizes[place]
    return np.flatnonzero(np.isin(group, drawn))


def _splits(
    data: Data, groups: Rows | None, options: Namespace
) -> Iterator[tuple[str, Rows, Rows | None, Rows]]:
    """Of each split its name, rows to fit, which of them are for validation, rows to test."""
    from sklearn.model_selection import GroupKFold

    from pyg_kernels.datasets import column_split, random_split, scaffold_split

    number = len(data.smiles)
    if options.folds:
        groups = np.arange(number) if groups is None else groups
        for repeat in range(options.repeats):
            folds = GroupKFold(options.folds, shuffle=True, random_state=options.seed + repeat)
            for fold, (fitted, test) in enumerate(folds.split(data.smiles, groups=groups)):
                label = f"fold {fold + 1}" + f", repeat {repeat + 1}" * (options.repeats > 1)
                yield label, fitted, None, test
        return
    for repeat in range(options.repeats):
        seed = options.seed + repeat
        if data.groups is not None:
            parts = _group_split(data.groups, options.fractions, seed)
        elif data.parts is not None:
            parts = tuple(part.numpy() for part in column_split(data.parts))
        elif options.split == "scaffold":
            # One split is that of OGB, the largest scaffolds first; several are shuffled.
            shuffled = seed if options.repeats > 1 else None
            found = scaffold_split(data.smiles, tuple(options.fractions), shuffled)
            parts = tuple(part.numpy() for part in found)
        else:
            found = random_split(number, tuple(options.fractions), seed)
            parts = tuple(part.numpy() for part in found)
        learned, valid, test = parts
        fitted = np.concatenate([learned, valid])
        held = np.arange(len(learned), len(fitted))
        yield f"split {repeat + 1}", fitted, held, test


def _group_split(groups: Rows, fractions: Any, seed: int) -> tuple[Rows, ...]:
    from sklearn.model_selection import GroupShuffleSplit

    _, valid, test = fractions
    rows = np.arange(len(groups))
    rest, last = next(
        GroupShuffleSplit(1, test_size=test, random_state=seed).split(rows, groups=groups)
    )
    inner = GroupShuffleSplit(1, test_size=valid / (1 - test), random_state=seed)
    first, second = next(inner.split(rest, groups=groups[rest]))
    return rest[first], rest[second], last


def _warn_of_duplicates(data: Data, fitted: Rows, test: Rows, say: Say) -> None:
    from pyg_kernels.chem import find_duplicates

    found = [each for each in find_duplicates(data.smiles, (fitted, test)) if each.is_across]
    again = sorted(
        int(data.lines[row])
        for each in found
        for row, part in zip(each.positions, each.parts, strict=True)
        if part == 1
    )
    if again:
        shown = ", ".join(map(str, again[:10])) + (", ..." if len(again) > 10 else "")
        say(f"warning: {len(again)} test molecules are fitted, too: lines {shown}")


def _fit(data: Data, options: Namespace, fitted: Rows, valid: Rows | None) -> Any:
    from pyg_kernels.molecules import MoleculeClassifier, MoleculeRegressor

    kind = MoleculeRegressor if data.targets.classes is None else MoleculeClassifier
    estimator = kind(
        model=options.model[0] if len(options.model) == 1 else options.model,
        ensemble_size=options.ensemble_size,
        epochs=options.epochs,
        featurizer=options.featurizer,
        random_state=options.seed,
        device=options.device,
    )
    y = data.y[fitted]
    weight = None if data.weight is None else data.weight[fitted]
    return estimator.fit(_rows(data.X, fitted), y, sample_weight=weight, validation=valid)


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
    half = _half_widths(estimator, targets.names, X, coverage, say) * std
    values = np.stack([mean, std, mean - half, mean + half], 2).reshape(number, -1)
    return dict(zip(_column_names(targets), values.T, strict=True))


def _column_names(targets: Any) -> list[str]:
    """The columns of predictions, in their order."""
    if targets.classes is None:
        kinds = ("predicted", "std", "low", "high")
        return [f"{kind}_{name}" for name in targets.names for kind in kinds]
    pairs = zip(targets.names, targets.classes, strict=True)
    return [f"probability_{name}_{word}" for name, words in pairs for word in words]


def _half_widths(estimator: Any, names: Sequence[str], X: Any, coverage: float, say: Say) -> Rows:
    """What standard deviations are multiplied by in intervals: one number a target.

    It is read from one molecule's interval, as all others would be predicted a second time. NaN
    where the validation part has too few measurements of a target.
    """
    one = _rows(X, np.arange(1))
    mean, std = (np.reshape(values, -1) for values in estimator.predict(one, return_std=True))

    def highs(scores: Rows) -> Rows:
        scored = copy(estimator)
        scored.scores_ = scores
        return np.reshape(scored.predict_interval(one, coverage)[1], -1)

    scores = estimator.scores_
    try:
        high = highs(scores)
    except ValueError:
        high = np.full(len(mean), np.nan)
        for place, name in enumerate(names):
            try:  # the scores of this target alone, as if they were those of all
                high[place] = highs(np.repeat(scores[:, [place]], len(names), 1))[place]
            except ValueError as error:
                say(f"warning: no intervals of {name}: {error}")
    else:
        for unknown in np.flatnonzero(np.isnan(high)):
            say(f"warning: no intervals of {names[int(unknown)]}: too few validation measurements")
    return np.asarray((high - mean) / std)


def _scores(
    targets: Targets, rows: Rows, found: dict[str, Rows], split: str, label: str
) -> list[dict[str, Any]]:
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


def _described(data: Data, rows: Rows, found: dict[str, Rows], label: str) -> pd.DataFrame:
    measured = {}
    for place, name in enumerate(data.targets.names):
        values = data.targets.values[rows, place]
        if data.targets.classes is not None:
            words = data.targets.classes[place]
            values = np.array(["" if np.isnan(code) else words[int(code)] for code in values])
        measured[name] = values
    first = {"line": data.lines[rows], "smiles": [data.smiles[row] for row in rows], "part": label}
    return pd.concat(
        [pd.DataFrame({**first, **measured}), pd.DataFrame(found).apply(rounded)], axis=1
    )


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


def _training_table(data: Data, rows: Rows) -> pd.DataFrame:
    return pd.DataFrame({"line": data.lines[rows], "smiles": [data.smiles[row] for row in rows]})


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
    """A finished run.

    Args:
        folder: Where ``train`` wrote it.

    Raises:
        FileError: If it is none.
    """

    def __init__(self, folder: str, trust: bool) -> None:
        from pyg_kernels.molecules import load

        self.folder = Path(folder)
        if not (self.folder / SETTINGS).is_file():
            raise FileError(f"{folder}: no finished run of pyg-kernels train, it has no {SETTINGS}")
        settings = json.loads((self.folder / SETTINGS).read_text(encoding="utf-8"))
        self.names: list[str] = settings["targets"]
        self.classes: list[list[str]] | None = settings["classes"]
        self.extra_columns: list[str] = settings["extra_columns"]
        self.estimator = load(self.folder / MODEL, trust)

    def training_smiles(self) -> list[str]:
        """The molecules that the run has learned from."""
        return read_table(self.folder / TRAINING)["smiles"].tolist()


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
    frame = next(read_chunks(options.data, options.encoding, options.limit), pd.DataFrame())
    if not len(frame):
        raise FileError(f"{options.data}: there is no row below the header")
    column = find_column(
        list(frame.columns), options.smiles_column, options.data, "--smiles-column"
    )
    molecules, valid = parse_molecules(frame, column, options.data, options.skip_invalid)
    _say_skipped(frame, valid, options.data, say)
    for name in run.extra_columns:
        find_column(list(frame.columns), name, options.data, "the run's extra column")
    X = _features(frame[valid], column, run.extra_columns, options.data)
    say(f"explaining {target} of the first {len(X)} molecules ...")
    found = run.estimator.explain(X, k=options.walks, target=outputs.index(target))
    out.mkdir(parents=True, exist_ok=True)
    found.to_html(out / "explanation.html")
    with TableWriter(out / "explanation.csv", options.overwrite) as writer:
        writer.write(_shares(found, molecules, frame.index[valid], target))
    say(f"wrote {out}: explanation.html, explanation.csv")


def _shares(found: Any, molecules: list[Any], lines: Any, target: str) -> pd.DataFrame:
    """One row for each atom, bond and walk of each molecule, and one for what none of them adds."""
    rows = []
    for i, (line, mol) in enumerate(zip(lines, molecules, strict=True)):
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
