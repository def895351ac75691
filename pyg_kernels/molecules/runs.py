"""What ``pyg-kernels`` does: train, explain, report."""

from __future__ import annotations

import json
import shutil
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn import metrics as measures
from sklearn.preprocessing import label_binarize

from pyg_kernels.datasets.public_file import file_sha256
from pyg_kernels.molecules.command import METRICS, say
from pyg_kernels.molecules.estimators import MoleculeClassifier, MoleculeRegressor
from pyg_kernels.molecules.inputs import read_weights
from pyg_kernels.molecules.resuming import (
    BEGUN,
    begin,
    begun_output,
    output_folder,
    replacing,
)
from pyg_kernels.molecules.splits import Part, check_split, split_name, splits
from pyg_kernels.molecules.store import FILE, load
from pyg_kernels.molecules.training_data import (
    CHANGES,
    Data,
    Rows,
    are_whole,
    extra_numbers,
    read_data,
    read_rows,
)
from pyg_kernels.tables import FileError, TableWriter, find_column, read_table

SETTINGS, SCORES, PREDICTIONS, TRAINING, MODEL, MEMBERS = (
    "run.json", "metrics.json", "predictions.csv", "training.csv", "model", "members",
)  # fmt: skip
TOLD = ("extra_columns", "seed")  # options in the settings of a run
COVERAGE = 0.9  # of the intervals whose coverage is scored
DIGITS = 9  # significant digits of the numbers that are written


def train(options: Namespace) -> None:
    """Trains on a table, scores on its test part, and writes a run.

    Fitted members are kept in the run until the run is finished: ``--resume`` reads them.
    """
    out = begun_output(options, SETTINGS)
    check_split(options)
    start = Run(options.start_from, options.trust).estimator if options.start_from else None
    data = read_data(options)
    check_metrics(options.metric or [], data.task)
    say(
        f"{len(data):,} molecules, {data.task} of {', '.join(data.names)}; "
        f"measured: {', '.join(map(str, data.y.notna().sum()))}"
    )
    estimator, name = made_estimator(options, data), split_name(options)
    parts = checked_parts(splits(data, options), estimator, data, start, options.freeze)
    scored, predicted = [], []
    with replacing(out, (SETTINGS, BEGUN, *CHANGES), out / MEMBERS):
        begin(out, options)
        if options.resume and (out / SETTINGS).is_file():
            say(f"{out} is finished")
            return
        if not options.resume:
            shutil.rmtree(out / MEMBERS, ignore_errors=True)
        for file in (SETTINGS, *CHANGES):  # the first is written last: without it, this is no run
            (out / file).unlink(missing_ok=True)
        for part in parts:
            models = ", ".join(options.model)
            say(f"{name}, {part.label}: fitting {models} to {len(part.fitted):,} molecules ...")
            fit_part(
                estimator, data, part,
                start_from=start, frozen=options.freeze, checkpoint=out / MEMBERS,
            )  # fmt: skip
            for target, spike in zip(data.names, estimator.task_.spikes, strict=False):
                if not np.isnan(spike):
                    what = "learned as its other values, and whether it has one"
                    say(f"{target} is often {spike:g}: {what}")
            if len(part.test):
                warn_of_intervals(estimator, data, COVERAGE)
                found = predictions(estimator, data, data.molecules.part(part.test), COVERAGE)
                told = {"split": name, "part": part.label}
                scored += [{**told, **scores} for scores in scores_of(data, part.test, found)]
                described = data.described(part.test).assign(part=part.label)
                predicted.append(pd.concat([described, pd.DataFrame(found).apply(rounded)], axis=1))
    estimator.save(out / MODEL, overwrite=True)
    tables = {
        PREDICTIONS: pd.concat(predicted),
        TRAINING: data.described(part.fitted)[["line", "smiles"]],
        **data.changes,
    }
    for file, table in tables.items():
        _write_table(out / file, table, overwrite=True)
    given = {name: getattr(options, name) for name in TOLD}
    settings = {"targets": data.names, "classes": data.classes, "task": data.task, **given}
    settings |= {"data": str(options.data), "split": name, "model": estimator.models_}
    settings["ensemble_size"] = len(estimator.members_) // len(estimator.models_)
    settings["teachers"] = estimator.teachers_
    for file, content in ((SCORES, {**settings, "scores": scored}), (SETTINGS, settings)):
        (out / file).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(out / MEMBERS, ignore_errors=True)
    print(_score_table(pd.DataFrame(scored), options.metric).to_string(index=False))
    say(f"wrote {out}: {', '.join([MODEL, SCORES, *tables])}")


def _write_table(path: Path | str, table: pd.DataFrame, overwrite: bool) -> None:
    with TableWriter(path, overwrite) as writer:
        writer.write(table)


def check_metrics(metrics: Sequence[str], task: str) -> None:
    """Refuses metrics of another task."""
    for name in metrics:
        if name not in METRICS[task]:
            raise ValueError(f"--metric {name}: scores of {task} are {', '.join(METRICS[task])}")


def made_estimator(options: Namespace, data: Data, **others: Any) -> Any:
    """The unfitted estimator for the options of ``pyg-kernels train``."""
    kind = MoleculeRegressor if data.classes is None else MoleculeClassifier
    told = {**vars(options), "random_state": options.seed, "hurdle": not options.no_hurdle}
    told["model"] = options.model[0] if len(options.model) == 1 else options.model
    told |= others
    names = kind().get_params()
    return kind(**{name: told[name] for name in names if told.get(name) is not None})


def checked_parts(
    parts: Iterable[Part], estimator: Any, data: Data, start: Any = None, frozen: bool = False
) -> list[Part]:
    """The parts; raises what `fit` would raise, before anything is written."""
    models, weight = estimator.check_arguments(start, frozen), data.cells("weight")
    found = list(parts)
    for part in found:
        rows, valid = part.fitted, () if part.valid is None else part.valid
        for name, cells in data.y.iloc[rows].items():
            learned = np.delete(cells.notna().to_numpy(), valid)
            number = cells.nunique() if data.classes else learned.sum()
            if number < 2:
                raise ValueError(
                    f"{part.label}: the target {name!r} has {number} "
                    f"{'classes' if data.classes else 'measurements'} among the {len(rows):,} "
                    "molecules to fit: expected at least 2"
                )
        own = read_weights(None if weight is None else weight[rows], len(rows))
        estimator.check_data(models, data.molecules.part(rows), own, start)
    return found


def fit_part(estimator: Any, data: Data, part: Part, **options: Any) -> None:
    """Fits an estimator to the rows of a part."""
    y, weight = data.y.iloc[part.fitted], data.cells("weight")
    for name, words in zip(data.names, data.classes or (), strict=False):
        if are_whole(words):
            # As numbers, whose order differs from that of their words.
            known = [int(word) if isinstance(word, str) else None for word in y[name]]
            y = y.assign(**{name: pd.Series(known, y.index, dtype=object)})
    estimator.fit(
        data.molecules.part(part.fitted),
        y.iloc[:, 0] if y.shape[1] == 1 else y,
        sample_weight=None if weight is None else weight[part.fitted],
        validation=part.valid,
        **options,
    )


def predictions(estimator: Any, targets: Any, X: Any, coverage: float) -> dict[str, Rows]:
    """Columns by name: mean, deviation and interval of numbers, or probabilities of classes."""
    columns: dict[str, Rows] = {}
    if targets.classes is None:
        mean, std = (found.reshape(len(X), -1).T for found in estimator.predict(X, return_std=True))
        half = estimator.interval_scale(coverage)[:, None] * std
        for place, name in enumerate(targets.names):
            kinds = {"predicted": mean, "std": std, "low": mean - half, "high": mean + half}
            columns |= {f"{kind}_{name}": values[place] for kind, values in kinds.items()}
        return columns
    found = estimator.predict_proba(X)
    for place, (name, words) in enumerate(zip(targets.names, targets.classes, strict=True)):
        known, own = list(map(str, estimator.each_classes_[place])), found
        if found.shape[1] == len(targets.names):  # the second class of each
            own = np.stack([1 - found[:, place], found[:, place]], 1)
        if not {*known} <= {*words}:
            raise ValueError(
                f"{name} has classes {', '.join(words)}: fitted are {', '.join(known)}"
            )
        fitted = dict(zip(known, own.T, strict=True))
        for word in words:
            columns[f"probability_{name}_{word}"] = fitted.get(word, np.zeros(len(X)))
    return columns


def warn_of_intervals(estimator: Any, targets: Any, coverage: float) -> None:
    """Names the targets whose intervals are unknown."""
    scale = estimator.interval_scale(coverage) if targets.classes is None else np.zeros(0)
    for unknown in np.flatnonzero(np.isnan(scale)):
        say(f"warning: no intervals of {targets.names[unknown]}: too few validation measurements")


def scores_of(data: Data, rows: Rows, found: dict[str, Rows]) -> list[dict[str, Any]]:
    """The scores of each target on some rows, None where one is not defined."""
    scored = []
    for place, (name, column) in enumerate(data.y.iloc[rows].items()):
        if data.classes is None:
            columns = [found[f"{kind}_{name}"] for kind in ("predicted", "low", "high")]
            scores = regression_scores(column.to_numpy(), *columns)
        else:
            words = data.classes[place]
            columns = [found[f"probability_{name}_{word}"] for word in words]
            codes = column.map({word: float(code) for code, word in enumerate(words)})
            scores = classification_scores(codes.to_numpy(float), np.stack(columns, 1))
        known = {metric: None if np.isnan(value) else value for metric, value in scores.items()}
        scored.append({"target": name, "test": int(column.notna().sum()), **known})
    return scored


def regression_scores(y: Rows, mean: Rows, low: Rows, high: Rows) -> dict[str, float]:
    """``rmse``, ``mae``, ``r2``, ``spearman``, and the share of measurements within intervals.

    Takes one target ``(n,)``, NaN where it was not measured, its predictions, and the lower and
    upper ends of intervals, NaN where there are none. A score that is not defined is NaN.
    """
    there = ~np.isnan(y)
    y, mean, low, high = y[there], mean[there], low[there], high[there]
    if not len(y):
        return dict.fromkeys(METRICS["regression"], np.nan)
    varied = np.ptp(y) > 0
    covered = np.nan if np.isnan(low).any() else float(((low <= y) & (y <= high)).mean())
    return {
        "rmse": float(measures.root_mean_squared_error(y, mean)),
        "mae": float(measures.mean_absolute_error(y, mean)),
        "r2": float(measures.r2_score(y, mean)) if varied else np.nan,
        "spearman": float(spearmanr(y, mean)[0]) if varied and np.ptp(mean) > 0 else np.nan,
        "coverage": covered,
    }


def classification_scores(y: Rows, probability: Rows) -> dict[str, float]:
    """``roc-auc``, ``pr-auc`` (average precision) and ``log-loss`` of one target.

    Takes numbers of classes ``(n,)``, NaN where one is missing, and probabilities ``(n, K)``. With
    more than two classes, the first two scores are means over each class against the rest.
    """
    there = ~np.isnan(y)
    classes, probability = y[there].astype(int), probability[there]
    number = probability.shape[1]
    if not len(classes):
        return dict.fromkeys(METRICS["classification"], np.nan)
    truth = label_binarize(classes, classes=range(number))  # for two classes, only the second
    scores = probability[:, -truth.shape[1] :]
    defined = bool(((truth.min(0) == 0) & (truth.max(0) == 1)).all())
    loss = measures.log_loss(classes, probability, labels=range(number))
    return {
        "roc-auc": float(measures.roc_auc_score(truth, scores)) if defined else np.nan,
        "pr-auc": float(measures.average_precision_score(truth, scores)) if defined else np.nan,
        "log-loss": float(loss),
    }


def rounded(values: Rows) -> Rows:
    """Numbers of any shape, rounded to the significant digits that are written."""
    values = np.asarray(values, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        places = DIGITS - 1 - np.floor(np.log10(np.abs(values)))
        scale = 10.0 ** np.abs(places)  # exact up to 22 places, so that division rounds once
        found = np.where(
            places >= 0, np.rint(values * scale) / scale, np.rint(values / scale) * scale
        )
    found = np.where(np.abs(places) <= 22, found, values)
    rest = (np.abs(places) > 22) & np.isfinite(places)  # neither 0, infinite, nor NaN
    found[rest] = [float(f"{value:.{DIGITS}g}") for value in values[rest]]
    return found


def _score_table(scores: pd.DataFrame, wanted: list[str] | None) -> pd.DataFrame:
    """A line for each target and metric: mean and, over several splits, standard deviation."""
    metrics = wanted or [m for names in METRICS.values() for m in names if m in scores.columns]
    lines = []
    for (target, split), rows in scores.groupby(["target", "split"], sort=False):
        for metric in metrics:
            values = pd.to_numeric(rows[metric])
            known = values.notna()
            line = {"target": target, "metric": metric, "mean": f"{values.mean():.4g}"}
            if len(rows) > 1:
                line["std"] = f"{values.std():.2g}"
            of = "" if known.all() else f" (defined in {known.sum()} of {len(rows)})"
            lines.append({**line, "split": split + of, "test": int(rows["test"][known].sum())})
    return pd.DataFrame(lines)


class Run:
    """A finished run, or a saved estimator, whose targets are then called y, or y0, y1, ..."""

    def __init__(self, folder: str, trust: bool) -> None:
        self.folder = Path(folder)
        if self.folder.name == MODEL and (self.folder.parent / SETTINGS).is_file():
            self.folder = self.folder.parent
        self.saved = self.folder / MODEL
        self.classes: list[list[str]] | None = None
        settings = self.folder / SETTINGS
        if settings.is_file():
            known = json.loads(settings.read_text(encoding="utf-8"))
            self.names, self.classes = known["targets"], known["classes"]
            self.estimator = load(self.saved, trust)
        elif (self.folder / FILE).is_file():
            self.saved = self.folder
            self.estimator = estimator = load(self.saved, trust)
            if hasattr(estimator, "each_classes_"):
                self.classes = [list(map(str, words)) for words in estimator.each_classes_]
            number = len(self.classes or estimator.spikes_)
            self.names = ["y"] if number == 1 else [f"y{place}" for place in range(number)]
        else:
            raise FileError(f"{folder}: no finished run of pyg-kernels train, it has no {SETTINGS}")
        self.extra_columns: list[str] = self.estimator.columns_

    def digest(self) -> str:
        """The SHA-256 of what was saved."""
        return file_sha256(self.saved / FILE)

    def training_smiles(self) -> list[str]:
        """The molecules that it has learned from, none if they are not known."""
        if (self.folder / TRAINING).is_file():
            return read_table(self.folder / TRAINING)["smiles"].tolist()
        kept = self.estimator.training_
        return [] if kept is None else list(kept[0].smiles)


def explain(options: Namespace) -> None:
    """Writes a page of drawings and a table of the shares of atoms, bonds and walks."""
    out = output_folder(options.out, options.overwrite)
    run = Run(options.runs[0], options.trust)
    spikes = zip(run.names, run.estimator.task_.spikes, strict=False)
    outputs = run.names + [f"{name} not {spike:g}" for name, spike in spikes if spike == spike]
    if run.estimator.task_.kind == "multiclass":
        outputs = list(map(str, run.estimator.each_classes_[0]))
    target = options.target or outputs[0]
    if target not in outputs:
        raise ValueError(f"--target {target}: the run has {', '.join(outputs)}")
    frame = read_table(options.data, options.limit, encoding=options.encoding)
    column = find_column(frame.columns, options.smiles_column, options.data, "--smiles-column")
    molecules, frame = read_rows(frame, column, options.data, options.skip_invalid)
    if not len(molecules):
        raise FileError(f"{options.data}: no molecule can be read")
    extra = extra_numbers(frame, run.extra_columns, options.data)
    say(f"explaining {target} of the first {len(molecules)} molecules ...")
    for name in outputs[len(run.names) :]:
        if name.startswith(f"{target} not "):
            say(f"{target} as it is elsewhere; --target '{name}' explains whether it is")
    X = molecules.with_extra(run.extra_columns, extra)
    found = run.estimator.explain(X, k=options.walks, target=outputs.index(target))
    out.mkdir(parents=True, exist_ok=True)
    found.to_html(out / "explanation.html")
    shares = found.to_frame()
    shares.insert(2, "target", target)
    shares["share"] = rounded(shares["share"])
    shares.insert(0, "line", frame.index[shares.pop("molecule")])
    _write_table(out / "explanation.csv", shares, options.overwrite)
    say(f"wrote {out}: explanation.html, explanation.csv")


def report(options: Namespace) -> None:
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
        models, teachers = (" + ".join(content.get(key, [])) for key in ("model", "teachers"))
        if content["ensemble_size"] > 1 and not teachers:
            models += f" x {content['ensemble_size']}"
        table.insert(0, "model", f"{models}, taught by {teachers}" if teachers else models)
        table.insert(0, "run", str(path.parent.relative_to(folder)))
        tables.append(table.assign(data=content["data"]))
    if not tables:
        raise FileError(f"{folder}: no finished run of pyg-kernels train below it")
    whole = pd.concat(tables).fillna("")
    if options.out:
        _write_table(options.out, whole, options.overwrite)
    print(whole.to_string(index=False))


def example(options: Namespace) -> None:
    """Writes a table with columns smiles and potency: see :class:`ChEMBLSulfonamides`."""
    from pyg_kernels.datasets import ChEMBLSulfonamides

    molecules = ChEMBLSulfonamides()
    table = pd.DataFrame({"smiles": molecules.smiles, "potency": molecules.targets[:, 0]})
    _write_table(options.out, table, options.overwrite)
    say(f"wrote {len(table):,} molecules")
