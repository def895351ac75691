"""``pyg-kernels tune``: a search for the options of a model, by Optuna."""

from __future__ import annotations

import tempfile
import warnings
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from pyg_kernels.molecules import resuming, runs, splits
from pyg_kernels.molecules.command import say
from pyg_kernels.molecules.methods import KERNEL_METHODS, NUM_LAYERS
from pyg_kernels.molecules.networks import NETWORKS
from pyg_kernels.molecules.training_data import Data, read_data

try:
    import optuna
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import TrialState
except ImportError as error:
    raise ImportError("pyg-kernels tune needs Optuna: pip install 'pyg_kernels[tune]'") from error

JOURNAL, BEST, TRIALS, PICTURE = "study.log", "best.yaml", "trials.csv", "trials.png"
LOW = ("rmse", "mae", "log-loss")  # the lower the better
TRIED = (TrialState.COMPLETE, TrialState.PRUNED)  # pruned ones are those that failed


def search_space(model: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """How each option of a model is suggested, and the values to begin with."""
    fixed = {
        "auto": "name one, such as wl",
        "gp": "it learns the weights of its kernels",
        "pooled": "it learns the weights of its kernels",
        "mean": "it has no options",
    }
    if model in fixed:
        raise ValueError(f"--model {model} has nothing to tune: {fixed[model]}")
    if model in KERNEL_METHODS:
        least = 2 if model == "random-walk-gp" else 1
        return {"num_layers": ("int", least, 6, {})}, {"num_layers": NUM_LAYERS}
    width = NETWORKS[model].hidden_channels if model in NETWORKS else 96
    space: dict[str, Any] = {
        "learning_rate": ("float", 1e-4, 1e-2, {"log": True}),
        "batch_size": ("categorical", [32, 64, 128], {}),
        "hidden_channels": ("int", width // 3, 2 * width, {"log": True}),
        "num_layers": ("int", 2, 6, {}),
        "dropout": ("float", 0.0, 0.4, {"step": 0.05}),
    }
    first = {"learning_rate": 1e-3, "batch_size": 64, "dropout": 0.0}
    if model in NETWORKS:
        first |= {"hidden_channels": width, "num_layers": NETWORKS[model].num_layers}
    if model in ("random-walk", "gated-walk"):  # they have no dropout
        del space["dropout"], first["dropout"]
    return space, first


def tune(options: Namespace) -> None:
    """Tries options until the wanted number of trials is finished, by this command and others.

    Each trial trains on the training part and is scored on the validation part, or on folds; the
    test part is never read. What a trial tries depends on the seed, its number and the trials
    before it, so that a search that is resumed goes on as if it had not been interrupted.
    """
    out = resuming.begun_output(options, BEST)
    splits.check_split(options)
    if len(options.model) > 1:
        raise ValueError("--model: tune takes one, train stacks several")
    space, first = search_space(options.model[0])
    space = {name: values for name, values in space.items() if getattr(options, name) is None}
    if not space:
        raise ValueError(f"--model {options.model[0]}: every option to search for is given")
    data = read_data(options)
    metric = _metric(options, data)
    made = runs.made_estimator(options, data)
    parts = runs.checked_parts(splits.searched(data, options), made, data)
    resuming.begin(out, options)
    if not options.resume:
        (out / JOURNAL).unlink(missing_ok=True)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        storage=optuna.storages.JournalStorage(JournalFileBackend(str(out / JOURNAL))),
        study_name="tune",
        direction="minimize" if metric in LOW else "maximize",
        load_if_exists=True,
    )
    if not study.trials:
        study.enqueue_trial({name: value for name, value in first.items() if name in space})
    reason = ""

    def score(trial: optuna.Trial) -> float:
        nonlocal reason
        # An interrupted trial is tried again, as if it had not begun.
        broken = sum(other.state == TrialState.FAIL for other in study.trials[: trial.number])
        seed = options.seed + trial.number - broken
        study.sampler = optuna.samplers.TPESampler(seed=seed)
        for name, (kind, *values, how) in space.items():
            getattr(trial, f"suggest_{kind}")(name, *values, **how)
        known = [other.value for other in _tried(study) if other.params == trial.params]
        if known and known[0] is None:
            raise optuna.TrialPruned  # it has failed before
        try:
            estimator = runs.made_estimator(options, data, **trial.params)
            return known[0] if known else _value(data, parts, estimator, metric)
        except KeyboardInterrupt:
            study.enqueue_trial(trial.params)
            raise
        except (ValueError, RuntimeError, MemoryError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            say(f"warning: trial {trial.number + 1} failed, {_shown(trial.params)}: {reason}")
            raise optuna.TrialPruned from error

    if len(_tried(study)) < options.trials:  # other commands may have finished some
        enough = optuna.study.MaxTrialsCallback(options.trials, TRIED)
        study.optimize(score, callbacks=[partial(_announce, metric), enough])
    if not any(trial.state == TrialState.COMPLETE for trial in study.trials):
        raise ValueError(f"no trial of {options.trials} has succeeded; the last one: {reason}")
    _write(study, out, options, metric)
    say(
        f"wrote {out}: {BEST}, {TRIALS}, {PICTURE}; next: pyg-kernels train {options.data} "
        f"--config {out / BEST} --out RUN"
    )


def _announce(metric: str, study: optuna.Study, trial: Any) -> None:
    if trial.state == TrialState.COMPLETE:
        best = study.best_trial
        say(
            f"trial {trial.number + 1}: {metric} {trial.value:.4g}, {_shown(trial.params)}; "
            f"best {best.value:.4g} of trial {best.number + 1}"
        )


def _metric(options: Namespace, data: Data) -> str:
    """``--metric``, else RMSE, for several targets the mean R2, for classes log-loss."""
    runs.check_metrics(options.metric or [], data.task)
    if "coverage" in (options.metric or []) or len(options.metric or []) > 1:
        raise ValueError(f"--metric {' '.join(options.metric)}: a search has one aim, not coverage")
    regression = "rmse" if len(data.names) == 1 else "r2"
    return str((options.metric or ["log-loss" if data.classes else regression])[0])


def _tried(study: optuna.Study) -> list[Any]:
    return study.get_trials(deepcopy=False, states=TRIED)


def _value(data: Data, parts: Sequence[splits.Part], estimator: Any, metric: str) -> float:
    """The mean of a metric over targets and parts."""
    values = []
    for part in parts:
        runs.fit_part(estimator, data, part)
        found = runs.predictions(estimator, data, data.molecules.part(part.test), runs.COVERAGE)
        scores = [score[metric] for score in runs.scores_of(data, part.test, found)]
        values += [score for score in scores if score is not None]
    if not values or not np.isfinite(values).all():
        raise ValueError(f"{metric} is not defined on the validation part")
    return float(np.mean(values))


def _shown(tried: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in tried.items()
    )


def _write(study: optuna.Study, out: Path, options: Namespace, metric: str) -> None:
    """Writes the best options for `train`, and a table and a picture of the trials."""
    import matplotlib

    matplotlib.use("Agg")
    given = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(options).items()
        if name not in {*resuming.FREE, "metric"}
        and not (value is None or value is False or value == [])
    }
    # Another worker may write at the same time.
    with (
        tempfile.TemporaryDirectory(prefix=".writing-", dir=out) as made,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # Optuna's plots are experimental; axes may have one value
        new = Path(made)  # the picture takes the longest, while others may finish
        axes: Any = optuna.visualization.matplotlib.plot_slice(study, target_name=metric)
        figure = np.ravel(axes)[0].figure
        figure.savefig(new / PICTURE, dpi=120, bbox_inches="tight")
        matplotlib.pyplot.close(figure)
        best = {
            name: float(f"{value:.4g}") if isinstance(value, float) else value
            for name, value in study.best_params.items()
        }
        table = study.trials_dataframe(("number", "value", "params", "state", "duration"))
        table["number"] += 1  # counted from 1, as announced
        text = yaml.safe_dump({**given, **best}, sort_keys=False)
        (new / BEST).write_text(text, encoding="utf-8")
        table.rename(columns={"number": "trial", "value": metric}).to_csv(new / TRIALS, index=False)
        for file in new.iterdir():
            file.replace(out / file.name)
