"""Predictions of test parts, thinned: files of them may be far larger than memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pandas

from benchmarks.harness.molecules.gathering.folders import FoundRun
from benchmarks.harness.molecules.regressor import root_mean_square
from benchmarks.harness.training import COLUMN_TYPES

COLUMNS = ("model", "seed", "part", "target", "y", "prediction")
ROWS_AT_ONCE = 200_000
MOST_TARGETS = 4
MOST_POINTS = 20_000


@dataclass(frozen=True)
class Sample:
    """Measured and predicted values of the test part, or a random sample of them.

    Args:
        y: Measured values, (P,).
        prediction: Predicted values, (P,).
        number (int): How many there are in the file.
        rmse (float): Root mean square error of all of them.
    """

    y: numpy.ndarray
    prediction: numpy.ndarray
    number: int
    rmse: float


@dataclass(frozen=True)
class RunPredictions:
    """What a run predicts for the test part.

    Args:
        targets: All names, in the order of the file.
        samples: Of the first :data:`MOST_TARGETS` targets, those that have a measured value.
    """

    targets: list[str]
    samples: dict[str, Sample]


def read_test_predictions(run: FoundRun, most: int = MOST_POINTS) -> RunPredictions | None:
    """Reads a run's predictions of the test part, a chunk of the file at a time.

    Args:
        run: A finished run.
        most (int): Points of a target to keep at most; the sample is the same every time.

    Returns:
        ``None`` if there is no file.

    Raises:
        ValueError, OSError: If the file cannot be read.
    """
    path = next((path for path in run.predictions if path.exists()), None)
    if path is None:
        return None
    chunks: dict[str, list[pandas.DataFrame]] = {}
    for rows in _chunks(path, run):
        for target, found in rows.groupby("target", sort=False):
            kept = chunks.setdefault(str(target), [])
            if list(chunks).index(str(target)) < MOST_TARGETS:
                kept.append(found[["y", "prediction"]].dropna())
    if not chunks:
        raise ValueError("no prediction of the test part")
    samples = {}
    for target, frames in chunks.items():
        frame = pandas.concat(frames) if frames else pandas.DataFrame()
        if len(frame):
            samples[target] = _sample(frame, most)
    return RunPredictions(list(chunks), samples)


def _chunks(path: Path, run: FoundRun) -> Iterator[pandas.DataFrame]:
    types: dict[Any, Any] = {name: COLUMN_TYPES.get(name, str) for name in COLUMNS}
    reader = pandas.read_csv(
        path,
        usecols=list(COLUMNS),
        dtype=types,
        keep_default_na=False,  # a target may be called NA
        na_values={"y": [""], "prediction": [""]},
        chunksize=ROWS_AT_ONCE,
    )
    model, seed = run.record["model"], str(run.record["seed"])
    with reader:
        for rows in reader:
            chosen = (rows["model"] == model) & (rows["seed"] == seed) & (rows["part"] == "test")
            yield rows[chosen]


def _sample(frame: pandas.DataFrame, most: int) -> Sample:
    y, prediction = (frame[name].to_numpy(numpy.float64) for name in ("y", "prediction"))
    number, rmse = len(y), root_mean_square(prediction - y)
    if number > most:
        places = numpy.random.default_rng(0).choice(number, most, replace=False)
        y, prediction = y[places], prediction[places]
    return Sample(y, prediction, number, rmse)
