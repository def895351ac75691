"""``pyg-kernels tune``: searches that are interrupted, shared, and handed to ``train``."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, patch

import numpy as np
import pytest

pytest.importorskip("optuna")
import optuna
import pandas as pd

from pyg_kernels.molecules import NETWORKS, MoleculeRegressor, load, tuning
from tests.molecules.sets import NETWORK, run

SEARCH = f"y --model wl {NETWORK}"


def tune(folder: Path, out: str, words: str, status: int = 0) -> str:
    return run(folder, f"tune +m.csv --out +{out} --target-columns {words}", status=status)


def trials_that(*effects: Any) -> Any:
    """Trials one after another raise these errors; where `DEFAULT` stands, they run."""
    return patch.object(tuning, "_value", wraps=tuning._value, side_effect=effects)


def trials(folder: Path, out: str) -> Any:
    return pd.read_csv(folder / out / "trials.csv").drop(columns="duration")


def test_a_search_is_resumed_as_if_it_had_not_been_interrupted(folder: Path) -> None:
    said = tune(folder, "whole", f"{SEARCH} --trials 4")
    assert said.count("tune: trial ") == 4 and "best " in said
    with trials_that(DEFAULT, DEFAULT, KeyboardInterrupt):
        tune(folder, "part", f"{SEARCH} --trials 4", status=130)
    assert "--resume goes on" in tune(folder, "part", f"{SEARCH} --trials 4", status=2)
    said = tune(folder, "part", f"{SEARCH} --trials 4 --dropout 0.1 --resume", status=2)
    assert "--dropout was not given, is 0.1" in said
    tune(folder, "part", f"{SEARCH} --trials 4 --resume")
    whole, part = trials(folder, "whole"), trials(folder, "part")
    part = part[part["state"] == "COMPLETE"]
    columns = [name for name in whole.columns if name != "trial"]
    np.testing.assert_array_equal(part[columns].to_numpy(), whole[columns].to_numpy())
    tune(folder, "part", f"{SEARCH} --trials 5 --resume")
    assert (trials(folder, "part")["state"] == "COMPLETE").sum() == 5


def test_workers_do_not_try_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask, asked = optuna.Study.ask, []

    def beside(study: optuna.Study, *given: Any) -> Any:
        asked.append(study)
        if len(asked) == 2:  # meanwhile another worker finishes a trial
            tune(folder, "shared", f"{SEARCH} --trials 2 --resume")
        return ask(study, *given)

    monkeypatch.setattr(optuna.Study, "ask", beside)
    tune(folder, "shared", f"{SEARCH} --trials 3")
    tried = trials(folder, "shared").filter(like="params_")
    assert len(tried) == 3 and not tried.duplicated().any()


def test_the_best_options_are_those_of_train(folder: Path) -> None:
    tune(folder, "search", f"{SEARCH} --trials 3 --metric mae --seed 3")
    assert (folder / "search" / "trials.png").read_bytes().startswith(b"\x89PNG")
    found = trials(folder, "search")
    best = found.loc[found["mae"].idxmin()]
    run(folder, "train +m.csv --config +search/best.yaml --out +run")
    given = load(folder / "run" / "model").get_params()
    assert given["learning_rate"] == pytest.approx(best["params_learning_rate"], rel=1e-3)
    assert given["batch_size"] == best["params_batch_size"]
    expected = {"model": "wl", "epochs": 2, "hidden_channels": 6, "random_state": 3}
    assert expected.items() <= given.items()


def test_the_test_part_is_never_read(folder: Path) -> None:
    frame = pd.read_csv(folder / "m.csv").assign(part=["train"] * 25 + ["valid"] * 8 + ["test"] * 7)
    words = "y --model wl-ridge --split column --split-column part --trials 2"
    for name, error in (("plain", 0.0), ("wrong", 1e6)):
        changed = frame.assign(y=frame["y"] + error * (frame["part"] == "test"))
        changed.to_csv(folder / "m.csv", index=False)
        tune(folder, name, words)
    np.testing.assert_array_equal(trials(folder, "plain")["rmse"], trials(folder, "wrong")["rmse"])
    words = "y --model wl-ridge --fractions 0.9 0 0.1"
    assert "the split has none" in tune(folder, "none", words, status=2)


def test_folds_and_several_targets(folder: Path) -> None:
    tune(folder, "folds", "y other --model wl-gp --folds 2 --trials 1")
    assert 0 < trials(folder, "folds")["r2"][0] <= 1


def test_trials_that_fail_are_told_and_left_out(folder: Path) -> None:
    failure = ValueError("the validation loss is nan")
    with trials_that(failure, DEFAULT):
        assert "trial 1 failed" in tune(folder, "some", f"{SEARCH} --trials 2")
    assert list(trials(folder, "some")["state"]) == ["PRUNED", "COMPLETE"]
    with trials_that(failure, failure):
        said = tune(folder, "none", f"{SEARCH} --trials 2", status=2)
    assert "no trial of 2 has succeeded" in said


def test_searches_without_an_aim_are_refused(folder: Path) -> None:
    for words, message in (
        *(
            (f"--model {model}", f"{model} has nothing to tune")
            for model in ("gp", "pooled", "mean")
        ),
        ("--model wl-ridge wl", "tune takes one"),
        ("--model wl-ridge --num-layers 2", "every option to search for is given"),
        ("--model wl --metric log-loss", "--metric log-loss"),
        ("--model wl --metric coverage", "one aim, not coverage"),
        ("--model wl --metric mae rmse", "--metric mae rmse: a search has one aim"),
        ("--model wl --ensemble-size 0", "ensemble_size == 0"),
        ("--model wl --dropout 2", "dropout == 2.0"),
    ):
        assert message in tune(folder, "no", f"y {words}", status=2)
        assert not (folder / "no").exists()


def test_every_model_can_be_built_with_what_a_search_tries_first() -> None:
    for model in (*NETWORKS, "random-walk-gp", "wl-forest"):
        space, first = tuning.search_space(model)
        assert set(first) == set(space)
        assert set(space) <= set(MoleculeRegressor().get_params())
        json.dumps(first)
