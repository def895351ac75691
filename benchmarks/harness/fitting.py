"""One model that is fitted at once: fit, predict every part."""

import io
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness.errors import naming_files, say
from benchmarks.harness.files import write_bytes
from benchmarks.harness.task import Task
from benchmarks.harness.training import BEST, Run, TrainingConfig, finished_run


def fit(
    task: Task,
    model: Any,
    estimator: Any,
    seed: int,
    config: TrainingConfig,
    folder: Path,
) -> Run:
    """Fits one model with one seed; leaves ``best.ckpt`` in the folder."""
    with naming_files(folder):
        folder.mkdir(parents=True, exist_ok=True)
    name = task.run_name(model.name, seed)
    started = time.perf_counter()
    estimator.fit()
    seconds = time.perf_counter() - started
    predictions = estimator.predictions()
    content = io.BytesIO()
    torch.save(estimator.checkpoint(), content)
    with naming_files(folder):
        write_bytes(folder / BEST, content.getvalue())
    details = {"seconds": round(seconds, 4), **estimator.details()}
    run = finished_run(task, model, seed, estimator.num_parameters(), predictions, [], details)
    if config.show != "nothing":
        key = f"{run.record['valid']:{task.measure.format([run.record['valid']])}}"
        say(f"{name}: fitted in {seconds:.1f} s, valid {task.measure.title} {key}")
    return run
