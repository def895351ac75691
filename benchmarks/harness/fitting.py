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
    """Fits one model with one seed; leaves ``best.ckpt`` in the folder.

    Args:
        task: What is learned.
        model: The configuration of the estimator.
        estimator: See :meth:`Task.estimator`; not fitted yet.
        seed (int): Of the run.
        config: Of display; what concerns batches and epochs has no effect.
        folder (Path): Where the checkpoint lies; made if missing.

    Returns:
        The finished run, not yet written. Its record has ``seconds``, those of fitting.

    Raises:
        DivergenceError: If an error is no finite number.
        InputError: If it cannot learn from these data, or the checkpoint cannot be written.
    """
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
