"""``pyg-kernels train``: cleaned tables, configurations, interrupted runs, runs to start from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from pyg_kernels.molecules import (
    MoleculeClassifier,
    MoleculeRegressor,
    load,
    store,
)
from pyg_kernels.molecules.command import main
from tests.molecules.sets import AROMATIC, LOGP, SMILES

NETWORK = "--epochs 2 --hidden-channels 6 --num-layers 2 --device cpu"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    frame = pd.DataFrame({"smiles": SMILES, "y": LOGP, "kind": AROMATIC, "other": -LOGP})
    frame.to_csv(tmp_path / "m.csv", index=False)
    return tmp_path / "m.csv"


def run(words: str, *paths: Path) -> int:
    """Runs words, with paths for their +."""
    given = iter(map(str, paths))
    return main([next(given) if word == "+" else word for word in words.split()])


def train(table: Path, out: str, words: str) -> int:
    return run(f"train + --out + {words}", table, table.parent / out)


def test_standardized_molecules(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.read_csv(table)
    frame["smiles"] = [text.replace("C(=O)O", "C(=O)[O-].[Na+]") for text in frame["smiles"]]
    frame.to_csv(table.parent / "salts.csv", index=False)
    words = "--target-columns y --model wl-ridge --seed 3"
    assert train(table, "plain", words) == 0
    assert train(table.parent / "salts.csv", "salts", f"{words} --standardize") == 0
    said = capsys.readouterr().err
    assert "4 of 40 molecules changed (cleanup 0, fragment 4, charge 4)" in said, said
    changed = pd.read_csv(table.parent / "salts" / "standardized.csv")
    assert list(changed["line"]) == [18, 19, 20, 21]
    assert changed["after"][0] == "O=C(O)c1ccccc1"
    for name in ("plain", "salts"):
        new = table.parent / ("salts.csv" if name == "salts" else "m.csv")
        assert run("predict + + --out +", table.parent / name, new, table.parent / "p.csv") == 0
        (table.parent / "p.csv").rename(table.parent / f"{name}_p.csv")
    plain, salts = (pd.read_csv(table.parent / f"{name}_p.csv") for name in ("plain", "salts"))
    np.testing.assert_allclose(plain["predicted_y"], salts["predicted_y"], rtol=1e-6)
    assert (salts["similarity"] == plain["similarity"]).all()


def test_merged_duplicates(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.read_csv(table)
    again = frame[:3].assign(smiles=["Cc1ccccc1", "CC1CCCCC1", "c1cncc(c1)"], y=[10.0, 20.0, 30.0])
    again.loc[0, "kind"] = "no"  # a contradiction
    both = pd.concat([frame, again])
    both.to_csv(table, index=False)
    words = "--target-columns y --model wl-ridge --merge-duplicates mean"
    assert train(table, "run", words) == 0
    assert "merged: 4 rows are 2 molecules" in capsys.readouterr().err
    merged = pd.read_csv(table.parent / "run" / "merged.csv")
    assert list(merged["lines"]) == ["2 42", "3 43"]
    np.testing.assert_allclose(merged["y"], (LOGP[:2] + np.array([10, 20])) / 2)
    assert train(table, "classes", words.replace(" y ", " kind ")) == 0
    assert list(pd.read_csv(table.parent / "classes" / "merged.csv")["kind"].isna()) == [
        True,
        False,
    ]
    capsys.readouterr()
    assert train(table, "apart", "--target-columns y --model wl-ridge --extra-columns other "
                 "--merge-duplicates mean") == 0  # fmt: skip
    said = capsys.readouterr().err
    assert "merged: 4 rows are 2 molecules" in said
    both["other"] = np.arange(len(both))
    both.to_csv(table, index=False)
    assert train(table, "other", "--target-columns y --model wl-ridge --extra-columns other "
                 "--merge-duplicates mean") == 0  # fmt: skip
    assert "merged: 0 rows" in capsys.readouterr().err


def test_duplicates_across_parts_are_warned_of(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.read_csv(table).assign(part=["train"] * 30 + ["valid"] * 5 + ["test"] * 5)
    frame.loc[31, "smiles"], frame.loc[36, "smiles"] = frame["smiles"][0], "Cc1ccccc1"
    frame.to_csv(table, index=False)
    words = "--target-columns y --model wl-ridge --split column --split-column part"
    assert train(table, "run", words) == 0
    said = capsys.readouterr().err
    assert "2 rows have a molecule of an earlier row; --merge-duplicates mean" in said
    assert "1 validation molecules are fitted, too: lines 33" in said
    assert "1 test molecules are fitted, too: lines 38" in said


def test_empty_groups_are_warned_of(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups = ["", "", "", *(str(row % 9) for row in range(37))]
    pd.read_csv(table).assign(group=groups).to_csv(table, index=False)
    words = "--target-columns y --model mean --groups-column group"
    assert train(table, "run", words) == 0
    assert "3 empty cells in 'group'" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["yaml", "json"])
def test_options_of_a_file(table: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"target_columns": ["y"], "model": ["wl-ridge"], "seed": 4, "standardize": True,
               "epochs": None, "skip-invalid": False}  # fmt: skip
    config = table.parent / f"options.{kind}"
    text = "target_columns: [y]\nmodel: [wl-ridge]\nseed: 4\nstandardize: true\n"
    config.write_text(json.dumps(options) if kind == "json" else text)
    assert run("train --config + + --out + --seed 5", config, table, table.parent / "run") == 0
    settings = json.loads((table.parent / "run" / "run.json").read_text())
    assert settings["seed"] == 5 and settings["model"] == ["wl-ridge"]
    assert (table.parent / "run" / "standardized.csv").is_file()
    capsys.readouterr()
    config.write_text("[1]")
    assert run("train --config + + --out +", config, table, table.parent / "no") == 2
    assert run("train --config + + --out +", table.parent / "no.yaml", table, table.parent) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2
    config.write_text("learning_rat: 1")
    with pytest.raises(SystemExit):
        run("train --config + + --out + --target-columns y", config, table, table.parent / "no")
    assert "--learning-rat=1" in capsys.readouterr().err


def interrupted(monkeypatch: pytest.MonkeyPatch, table: Path, words: str, after: int) -> None:
    """Trains until some members are finished."""
    with monkeypatch.context() as patch:
        left, fit = iter(range(after)), store.fit_once

        def counted(*given: Any) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt
            fit(*given)

        patch.setattr("pyg_kernels.molecules.estimators.fit_once", counted)
        assert train(table, "run", words) == 130


def test_an_interrupted_run_ends_with_the_uninterrupted_numbers(
    table: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"--target-columns y --model wl-ridge wl --ensemble-size 2 --folds 2 {NETWORK}"
    assert train(table, "whole", words) == 0
    interrupted(monkeypatch, table, words, 6)
    assert not (table.parent / "run" / "run.json").exists()
    assert train(table, "run", words) == 2
    assert "--resume goes on with it" in capsys.readouterr().err
    for changed, message in (
        ("--seed 1", "--seed was 0, is 1"),
        ("--learning-rate 0.1", "--learning-rate was not given, is 0.1"),
        ("--target-columns y other", "--target-columns was y, is y other"),
    ):
        assert train(table, "run", f"{words} {changed} --resume") == 2
        assert message in capsys.readouterr().err
    content = table.read_text()
    table.write_text(content + "CCCC,1,no,2\n")
    assert train(table, "run", f"{words} --resume") == 2
    assert "content of DATA was" in capsys.readouterr().err
    table.write_text(content)
    fitted = []
    fit = store.fit_once

    def recorded(member: Any, *given: Any) -> None:
        original = member.fit
        member.fit = lambda examples: (fitted.append(member.model), original(examples))
        fit(member, *given)

    with monkeypatch.context() as patch:
        patch.setattr("pyg_kernels.molecules.estimators.fit_once", recorded)
        assert train(table, "run", f"{words} --resume") == 0
    assert len(fitted) == 12 - 6
    for name in ("predictions.csv", "metrics.json", "training.csv"):
        assert (table.parent / "run" / name).read_text() == (
            table.parent / "whole" / name
        ).read_text()
    one, other = (load(table.parent / name / "model").predict(SMILES) for name in ("run", "whole"))
    np.testing.assert_array_equal(one, other)
    assert not (table.parent / "run" / "members").exists()
    capsys.readouterr()
    assert train(table, "run", f"{words} --resume") == 0
    assert "is finished" in capsys.readouterr().err


def test_other_threads_are_told(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--target-columns y --model wl-ridge"
    assert train(table, "run", words) == 0
    (table.parent / "run" / "run.json").unlink()
    path = table.parent / "run" / "begun.json"
    began = json.loads(path.read_text())
    assert began["threads"] == torch.get_num_threads()
    path.write_text(json.dumps({**began, "threads": 64}))
    assert train(table, "run", f"{words} --resume") == 0
    assert "began with 64 threads" in capsys.readouterr().err


def test_a_run_starts_from_another(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = f"--target-columns y --model gin {NETWORK}"
    assert train(table, "first", words) == 0
    start = f"--start-from {table.parent / 'first'} --freeze"
    assert train(table, "second", f"{words.replace(' y ', ' other ')} {start}") == 0
    first, second = (
        load(table.parent / name / "model").members_[0].net.state_dict()
        for name in ("first", "second")
    )
    moved = {name for name in first if not torch.equal(first[name], second[name])}
    assert moved and all(name.startswith("net.head.") for name in moved)
    capsys.readouterr()
    assert train(table, "third", f"--target-columns y --model gine {NETWORK} {start}") == 2
    assert "start_from has no 'gine'" in capsys.readouterr().err
    plain = words.replace("gin ", "wl-ridge ")
    assert train(table, "third", plain) == 0  # what failed at once is in nobody's way
    assert train(table, "fourth", f"{words} --freeze") == 2
    assert "start_from" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--model wl-rigde", "model='wl-rigde'"),
        ("--model tests.molecules.nets:Nothing", "cannot be imported"),
        ("--model wl-ridge --featurizer ogbb", "ogbb"),
        ("--model gin --device cudda", "cudda"),
        ("--model gin --freeze", "start_from"),
        ("--model gin --start-from {}", "start_from has no 'gin'"),
        ("--model wl-ridge --folds 50", "number of splits"),
        ("--model wl-ridge --groups-column kind --fractions 0.8 0.8 0.1", "add up to 1"),
    ],
)
def test_what_cannot_begin_replaces_no_run(
    table: Path, capsys: pytest.CaptureFixture[str], words: str, message: str
) -> None:
    words = f"--target-columns y --overwrite {words.format(table.parent / 'run')}"
    assert train(table, "run", "--target-columns y --model mean") == 0
    before = {path: path.read_bytes() for path in (table.parent / "run").glob("*.*")}
    capsys.readouterr()
    assert train(table, "run", words) == 2
    assert message in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in (table.parent / "run").glob("*.*")}


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        ("wl-ridge", AROMATIC),
        ("gin", AROMATIC),
        ("wl-ridge", AROMATIC[:, None]),
        ("wl-ridge", np.arange(len(SMILES))[:, None] % 3),
    ],
)
def test_what_an_estimator_has_saved_is_taken_as_a_run(
    table: Path, model: str, labels: Any
) -> None:
    small = {"epochs": 1, "hidden_channels": 4, "progress": False}
    fitted = MoleculeClassifier(model, **small).fit(SMILES, labels)
    fitted.save(table.parent / "saved")
    out = table.parent / "p.csv"
    assert run("predict + + --out +", table.parent / "saved", table, out) == 0
    found = pd.read_csv(out)
    expected, classes = fitted.predict_proba(SMILES), fitted.each_classes_[0]
    if expected.shape[1] == 1:
        expected = np.hstack([1 - expected, expected])
    np.testing.assert_allclose(found[[f"probability_y_{word}" for word in classes]], expected, 1e-5)
    assert found["similarity"].isna().all() == (model == "gin")
    if model != "gin":
        words = "explain + + --limit 1 --out +"
        assert run(words, table.parent / "saved", table, table.parent / "explained") == 0
        shares = pd.read_csv(table.parent / "explained" / "explanation.csv", dtype=str)
        assert set(shares["target"]) == {"y" if len(classes) == 2 else "0"}
    words = f"--target-columns y --model {model} --epochs 1 --hidden-channels 4"
    assert train(table, "run", words) == 0
    for name in ("run", "run/model"):
        command = "predict + + --out + --overwrite"
        assert run(command, table.parent / name, table, out) == 0
        assert pd.read_csv(out)["similarity"].max() == 1


@pytest.mark.parametrize("columns", ["grade", "grade other"])
def test_classes_that_are_numbers_keep_their_order(table: Path, columns: str) -> None:
    frame = pd.DataFrame({"smiles": SMILES, "grade": np.where(AROMATIC == "yes", 2, 10)})
    frame.assign(other=12 - frame["grade"]).to_csv(table, index=False)
    words = f"--target-columns {columns} --task classification --model wl-ridge"
    assert train(table, "run", words) == 0
    fitted = load(table.parent / "run" / "model")
    assert [list(known) for known in fitted.each_classes_] == [["2", "10"]] * len(columns.split())
    second = fitted.predict_proba(SMILES)[:, 1 if fitted.flat_ else 0]
    assert ((second > 0.5) == (frame["grade"] == 10)).all()
    np.testing.assert_array_equal(fitted.explain(SMILES).output > 0, frame["grade"] == 10)


def test_early_stopping_is_announced(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--target-columns y --model gin --epochs 9 --patience 1 --learning-rate 0.5"
    assert train(table, "run", f"{words} --hidden-channels 4 --device cpu") == 0
    assert "gin stopped early, after epoch" in capsys.readouterr().err


def test_finished_members_are_taken_from_a_checkpoint_of_the_same_arguments(
    tmp_path: Path,
) -> None:
    given: dict[str, Any] = {"model": ["wl-gp", "gin"], "epochs": 2, "hidden_channels": 6}
    first = MoleculeRegressor(**given).fit(SMILES, LOGP, checkpoint=tmp_path)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    again = MoleculeRegressor(**given).fit(SMILES, LOGP, checkpoint=tmp_path)
    assert sorted(tmp_path.iterdir()) == files
    np.testing.assert_array_equal(first.predict(SMILES), again.predict(SMILES))
    MoleculeRegressor(**given, learning_rate=0.1).fit(SMILES, LOGP, checkpoint=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3  # the network alone has a learning rate
    MoleculeRegressor(**given).fit(SMILES, -LOGP, checkpoint=tmp_path)
    assert len(list(tmp_path.iterdir())) == 5
    shutil.rmtree(tmp_path)
