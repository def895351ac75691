"""``pyg-kernels train``: cleaned tables, configurations, interrupted runs, runs to start from."""

import json
from pathlib import Path
from unittest.mock import DEFAULT, patch

import numpy as np
import pandas as pd
import pytest
import torch

from pyg_kernels.molecules import MoleculeClassifier, load, store
from pyg_kernels.molecules.resuming import replacing
from pyg_kernels.molecules.training_data import read_rows, read_targets
from pyg_kernels.tables import FileError
from tests.molecules.sets import AROMATIC, LOGP, NETWORK, SMALL, SMILES, regressor, run, train


def test_standardized_molecules(folder: Path) -> None:
    frame = pd.read_csv(folder / "m.csv")
    words = "y --model wl-ridge --seed 3"
    train(folder, "plain", words)
    run(folder, "predict +plain +m.csv --out +plain.csv")
    frame["smiles"] = [text.replace("C(=O)O", "C(=O)[O-].[Na+]") for text in frame["smiles"]]
    frame.to_csv(folder / "m.csv", index=False)
    said = train(folder, "salts", f"{words} --standardize")
    assert "4 of 40 molecules changed (cleanup 0, fragment 4, charge 4)" in said, said
    changed = pd.read_csv(folder / "salts" / "standardized.csv")
    assert list(changed["line"]) == [18, 19, 20, 21]
    assert changed["after"][0] == "O=C(O)c1ccccc1"
    run(folder, "predict +salts +m.csv --out +salts.csv")
    plain, salts = (pd.read_csv(folder / name) for name in ("plain.csv", "salts.csv"))
    np.testing.assert_allclose(plain["predicted_y"], salts["predicted_y"], rtol=1e-6)
    assert (salts["similarity"] == plain["similarity"]).all()


def test_merged_duplicates(folder: Path) -> None:
    """Contradictory classes give none; only rows of equal groups and extra columns are merged."""
    frame = pd.read_csv(folder / "m.csv")
    again = frame[:3].assign(smiles=["Cc1ccccc1", "CC1CCCCC1", "c1cncc(c1)"], y=[10.0, 20.0, 30.0])
    again.loc[0, "kind"] = "no"  # a contradiction
    both = pd.concat([frame, again])
    both.to_csv(folder / "m.csv", index=False)
    words = "--model mean --merge-duplicates mean"
    assert "merged: 4 rows are 2 molecules" in train(folder, "run", f"y {words}")
    merged = pd.read_csv(folder / "run" / "merged.csv")
    assert list(merged["lines"]) == ["2 42", "3 43"]
    np.testing.assert_allclose(merged["y"], (LOGP[:2] + np.array([10, 20])) / 2)
    train(folder, "classes", f"kind {words}")
    kinds = pd.read_csv(folder / "classes" / "merged.csv")["kind"]
    assert list(kinds.isna()) == [True, False]
    extra = f"y {words} --extra-columns other"
    assert "merged: 4 rows are 2 molecules" in train(folder, "apart", extra)
    both.assign(other=np.arange(len(both))).to_csv(folder / "m.csv", index=False)
    assert "merged: 0 rows" in train(folder, "other", extra)
    grouped = frame.assign(group=frame.index // 4)
    grouped = pd.concat([grouped, grouped[:8].assign(group=9), grouped[:4]])
    grouped.to_csv(folder / "m.csv", index=False)
    train(folder, "groups", f"y {words} --groups-column group")
    merged = pd.read_csv(folder / "groups" / "merged.csv")
    assert list(merged["lines"]) == ["2 50", "3 51", "4 52", "5 53"]
    grouped.assign(y=1.2e-16, weight=np.arange(len(grouped)) % 2).to_csv(folder / "m.csv")
    train(folder, "weighted", f"y {words} --weight-column weight")
    assert set(pd.read_csv(folder / "weighted" / "merged.csv")["y"]) == {1.2e-16}


def test_duplicates_across_parts_and_empty_groups_are_warned_of(folder: Path) -> None:
    parts = ["train"] * 30 + ["valid"] * 5 + ["test"] * 5
    groups = ["", "", "", *(str(row % 9) for row in range(37))]
    frame = pd.read_csv(folder / "m.csv").assign(part=parts, group=groups)
    frame.loc[31, "smiles"], frame.loc[36, "smiles"] = frame["smiles"][0], "Cc1ccccc1"
    frame.to_csv(folder / "m.csv", index=False)
    said = train(folder, "run", "y --model mean --split column --split-column part")
    assert "2 rows have a molecule of an earlier row; --merge-duplicates mean" in said
    assert "1 validation molecules are fitted, too: lines 33" in said
    assert "1 test molecules are fitted, too: lines 38" in said
    said = train(folder, "grouped", "y --model mean --groups-column group")
    assert "3 empty cells in 'group'" in said


@pytest.mark.parametrize("kind", ["yaml", "json"])
def test_options_of_a_file(folder: Path, kind: str) -> None:
    options = {"target_columns": ["y"], "model": ["mean"], "seed": 4, "standardize": True,
               "epochs": None, "skip-invalid": False}  # fmt: skip
    config, words = folder / f"options.{kind}", f"train --config +options.{kind} +m.csv --out"
    text = "target_columns: [y]\nmodel: [mean]\nseed: 4\nstandardize: true\n"
    config.write_text(json.dumps(options) if kind == "json" else text)
    run(folder, f"{words} +run --seed 5")
    settings = json.loads((folder / "run" / "run.json").read_text())
    assert settings["seed"] == 5 and settings["model"] == ["mean"]
    assert (folder / "run" / "standardized.csv").is_file()
    config.write_text("[1]")
    for wrong in (f"{words} +no", "train --config +no.yaml +m.csv --out +no"):
        assert len(run(folder, wrong, status=2).splitlines()) == 1
    config.write_text("learning_rat: 1")
    assert "--learning-rat=1" in run(folder, f"{words} +no --target-columns y", status=2)


def test_an_interrupted_run_ends_with_the_uninterrupted_numbers(folder: Path) -> None:
    """It takes up the same options and data alone, and tells of another number of threads."""
    words = f"y --model wl-ridge wl --folds 2 {NETWORK}"
    train(folder, "whole", words)
    effects = [DEFAULT, DEFAULT, DEFAULT, KeyboardInterrupt]
    with patch.object(store, "_write", wraps=store._write, side_effect=effects):
        train(folder, "run", words, status=130)
    assert not (folder / "run" / "run.json").exists()
    assert "--resume goes on with it" in train(folder, "run", words, status=2)
    for changed, message in (
        ("--seed 1", "--seed was 0, is 1"),
        ("--learning-rate 0.1", "--learning-rate was not given, is 0.1"),
        ("--target-columns y other", "--target-columns was y, is y other"),
    ):
        assert message in train(folder, "run", f"{words} {changed} --resume", status=2)
    content = (folder / "m.csv").read_text()
    (folder / "m.csv").write_text(content + "CCCC,1,no,2\n")
    assert "content of DATA was" in train(folder, "run", f"{words} --resume", status=2)
    (folder / "m.csv").write_text(content)
    path = folder / "run" / "begun.json"
    began = json.loads(path.read_text())
    assert began["threads"] == torch.get_num_threads()
    path.write_text(json.dumps({**began, "threads": 64}))
    read = patch.object(store, "_read", wraps=store._read)
    with patch.object(store, "_write", wraps=store._write) as write, read as kept:
        assert "began with 64 threads" in train(folder, "run", f"{words} --resume")
    assert kept.call_count == 3  # members, which are not fitted again
    assert write.call_count == 6 - 3 + 1  # the other members, and the estimator
    for name in ("predictions.csv", "metrics.json", "training.csv"):
        assert (folder / "run" / name).read_text() == (folder / "whole" / name).read_text()
    one, other = (load(folder / name / "model").predict(SMILES) for name in ("run", "whole"))
    np.testing.assert_array_equal(one, other)
    assert not (folder / "run" / "members").exists()
    assert "is finished" in train(folder, "run", f"{words} --resume")


def test_a_run_starts_from_another(folder: Path) -> None:
    """Only the heads of frozen networks change; running means and variances stay, too."""
    models = f"--model gin tests.molecules.nets:TwoConvs {NETWORK}"
    train(folder, "first", f"y {models}")
    start = f"--start-from {folder / 'first'} --freeze"
    train(folder, "second", f"other y {models} {start} --trust")
    first, second = (load(folder / name / "model", trust=True) for name in ("first", "second"))
    for one, other in zip(first.members_, second.members_, strict=True):
        after = other.net.state_dict()
        pairs = one.net.state_dict().items()
        moved = {name for name, before in pairs if not torch.equal(before, after[name])}
        assert moved and all(name.startswith(("net.head.", "net.lin.")) for name in moved)
    assert "import path" in train(folder, "third", f"y {models} {start}", status=2)
    train(folder, "third", "y --model mean")  # the runs that failed at once are not in the way


def test_what_cannot_begin_replaces_no_run(folder: Path) -> None:
    frame = pd.read_csv(folder / "m.csv")
    part = np.array(["train", "valid", "test"])[np.minimum(frame.index % 5, 2)]
    late = np.where(part == "train", np.nan, 1.0)
    frame = frame.assign(twice=1 + frame.index % 2, part=part, once=part == "test", late=late)
    frame["same"], frame["some"] = "a", (frame.index > 1).astype(float)
    frame["one"] = np.where(frame.index == 0, 1.0, np.nan)
    frame["two"] = np.where(frame.index < 2, frame.index, np.nan)
    frame.to_csv(folder / "m.csv", index=False)
    train(folder, "run", "y --model mean")
    before = {path: path.read_bytes() for path in (folder / "run").glob("*.*")}
    for words, message in (
        ("--model wl-rigde", "model='wl-rigde'"),
        ("--model tests.molecules.nets:Nothing", "cannot be imported"),
        ("--model wl-ridge --featurizer ogbb", "ogbb"),
        ("--model gin --device cudda", "cudda"),
        ("--model gin --freeze", "start_from"),
        ("--model gp --weight-column twice", "takes no sample_weight"),
        (f"--model gin --start-from {folder}/run", "start_from has no 'gin'"),
        ("--model wl-ridge --folds 50", "--folds 50: there are 40 molecules to divide"),
        ("--model wl-ridge --split scaffold --folds 50", "scaffolds to divide"),
        ("--target-columns late --split column --split-column part", "'late' has 0 measurements"),
        ("--target-columns one --split column --split-column part", "expected at least 2"),
        ("--model wl-ridge --groups-column kind --fractions 0.9 0.1 0", "fractions must be three"),
        ("--target-columns once --split column --split-column part", "has 1 classes"),
        ("--model wl-ridge --groups-column kind --fractions 0.8 0.8 0.1", "add up to 1"),
        ("--model mean --groups-column same", "--groups-column: there are 1 groups, the parts n"),
        ("--model random-walk --dropout 0.2 --epochs 1", "random-walk has none"),  # by `fit`
        ("--target-columns two y --weight-column some", "to fit whose weight is above 0"),
    ):
        assert message in train(folder, "run", f"y --overwrite {words}", status=2)
        assert before == {path: path.read_bytes() for path in (folder / "run").glob("*.*")}
    run(folder, "predict +run +m.csv --out +p.csv")


def test_a_run_that_fails_replaces_a_finished_one_once_it_has_a_member(tmp_path: Path) -> None:
    members, finished = tmp_path / "members", tmp_path / "run.json"
    finished.write_text("old")

    def fail(has_member: bool) -> None:
        finished.unlink()
        members.mkdir(exist_ok=True)
        if has_member:
            (members / "0.npz").touch()
        raise OSError("full")

    for has_member in (False, True):
        with pytest.raises(OSError, match="full"), replacing(tmp_path, ("run.json",), members):
            fail(has_member)
        assert finished.is_file() != has_member


def test_what_an_estimator_has_saved_is_taken_as_a_run(folder: Path) -> None:
    for model, labels in (
        ("wl-ridge", AROMATIC),
        ("gin", AROMATIC),
        ("wl-ridge", AROMATIC[:, None]),
        ("wl-ridge", np.arange(len(SMILES))[:, None] % 3),
    ):
        fitted = MoleculeClassifier(model, **SMALL).fit(SMILES, labels)
        fitted.save(folder / "saved", overwrite=True)
        run(folder, "predict +saved +m.csv --out +p.csv --overwrite")
        found = pd.read_csv(folder / "p.csv")
        expected, classes = fitted.predict_proba(SMILES), fitted.each_classes_[0]
        if expected.shape[1] == 1:
            expected = np.hstack([1 - expected, expected])
        names = [f"probability_y_{word}" for word in classes]
        np.testing.assert_allclose(found[names], expected, rtol=1e-5)
        assert found["similarity"].isna().all() == (model == "gin")
        if model != "gin":
            run(folder, "explain +saved +m.csv --limit 1 --out +explained --overwrite")
            shares = pd.read_csv(folder / "explained" / "explanation.csv", dtype=str)
            assert set(shares["target"]) == {"y" if len(classes) == 2 else "0"}
    several = regressor("mean").fit(SMILES, np.stack([LOGP, -LOGP], 1))
    several.save(folder / "saved", overwrite=True)
    run(folder, "predict +saved +m.csv --out +p.csv --overwrite")
    assert {"predicted_y0", "predicted_y1"} <= {*pd.read_csv(folder / "p.csv")}


@pytest.mark.parametrize("model", ["mean", "gin"])
def test_the_model_of_a_run_is_taken_as_the_run(folder: Path, model: str) -> None:
    train(folder, "run", f"y --model {model} {NETWORK}")
    for name in ("run", "run/model"):
        run(folder, f"predict +{name} +m.csv --out +p.csv --overwrite")
        assert pd.read_csv(folder / "p.csv")["similarity"].max() == 1


@pytest.mark.parametrize("columns", ["grade", "grade other"])
def test_classes_that_are_numbers_keep_their_order(folder: Path, columns: str) -> None:
    frame = pd.DataFrame({"smiles": SMILES, "grade": np.where(AROMATIC == "yes", 2, 10)})
    frame.assign(other=12 - frame["grade"]).to_csv(folder / "m.csv", index=False)
    train(folder, "run", f"{columns} --task classification --model wl-ridge")
    fitted = load(folder / "run" / "model")
    assert [list(known) for known in fitted.each_classes_] == [[2, 10]] * len(columns.split())
    second = fitted.predict_proba(SMILES)[:, 1 if fitted.flat_ else 0]
    assert ((second > 0.5) == (frame["grade"] == 10)).all()
    np.testing.assert_array_equal(fitted.explain(SMILES).output > 0, frame["grade"] == 10)


def test_early_stopping_is_announced(folder: Path) -> None:
    words = f"y --model gin {NETWORK} --epochs 9 --patience 1 --learning-rate 0.5"
    assert "gin stopped early, after epoch" in train(folder, "run", words)


def test_finished_members_are_taken_from_a_checkpoint(tmp_path: Path) -> None:
    first = regressor(["wl-gp", "gin"]).fit(SMILES, LOGP, checkpoint=tmp_path)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    again = regressor(["wl-gp", "gin"]).fit(SMILES, LOGP, checkpoint=tmp_path)
    assert sorted(tmp_path.iterdir()) == files
    np.testing.assert_array_equal(first.predict(SMILES), again.predict(SMILES))
    regressor(["wl-gp", "gin"], learning_rate=0.1).fit(SMILES, LOGP, checkpoint=tmp_path)
    assert len(list(tmp_path.iterdir())) == 3  # the network alone has a learning rate
    regressor(["wl-gp", "gin"]).fit(SMILES, -LOGP, checkpoint=tmp_path)
    assert len(list(tmp_path.iterdir())) == 5


def test_columns_of_a_run_have_names_of_their_own(folder: Path) -> None:
    for columns, twice in (
        ({"a": ["b_c", "x"], "a_b": ["c", "x"]}, "probability_a_b_c"),
        ({"part": [1.0, 2.0]}, "part"),
        ({"y": [1.0, 2.0], "predicted_y": [1.0, 2.0]}, "predicted_y"),
    ):
        rows = {name: values * 20 for name, values in columns.items()}
        pd.DataFrame({"smiles": SMILES, **rows}).to_csv(folder / "m.csv", index=False)
        said = train(folder, "run", f"{' '.join(columns)} --model wl-ridge", status=2)
        assert f"two columns for {twice!r}: rename a target" in said


# What is learned from the columns of a table, and which rows have molecules


def table(**columns: list[str]) -> pd.DataFrame:
    frame = pd.DataFrame(columns)
    frame.index = range(2, 2 + len(frame))
    return frame


def test_targets_are_numbers_or_classes() -> None:
    frame = table(
        number=["1", "NA", "-2e3", "0"],
        binary=["0", "1", "", "1"],
        truth=["True", "FALSE", "nan", "true"],
        word=["toxic", "safe", " safe", ""],
        rank=["10", "2", "2.0", "1"],
    )
    found, classes = read_targets(frame, ["number", "binary"], None, "m.csv")
    assert classes is None
    np.testing.assert_array_equal(found, [[1, 0], [np.nan, 1], [-2000, np.nan], [0, 1]])
    found, classes = read_targets(frame, ["truth", "word"], None, "m.csv")
    assert classes == [["false", "true"], ["safe", "toxic"]]
    assert found["truth"].fillna("").tolist() == ["true", "false", "", "true"]
    assert found["word"].fillna("").tolist() == ["toxic", "safe", "safe", ""]
    found, classes = read_targets(frame, ["rank", "binary"], "classification", "m.csv")
    assert classes == [["1", "2", "10"], ["0", "1"]]
    assert found["rank"].tolist() == ["10", "2", "2", "1"]
    frame = table(  # names keep their digits and case
        code=["1000001", "1000002", "1000002.0", "NaN", "0.5"], kind=["None", "Ki", "NA", "", "Ki"]
    )
    found, classes = read_targets(frame, ["code", "kind"], "classification", "m.csv")
    assert classes == [["0.5", "1000001", "1000002"], ["Ki", "None"]]
    assert found["code"].fillna("").tolist() == ["1000001", "1000002", "1000002", "", "0.5"]
    assert found["kind"].fillna("").tolist() == ["None", "Ki", "", "", "Ki"]
    words = ["1_1", "20", "11", "1_1"]
    found, classes = read_targets(table(c=words), ["c"], "classification", "m.csv")
    assert (classes, found["c"].tolist()) == ([["11", "1_1", "20"]], words)


def test_wrong_targets() -> None:
    for cells, task, expected in (
        (["1", "x", "2"], None, "line 3: 'x'"),
        (["1", "inf", "2"], None, "line 3: 'inf'"),
        (["low", "high", "low"], "regression", "line 2: 'low'"),
        (["7,5", "8,5"] * 3, None, "decimals have a point, .*; --task classification"),
        (["", "", ""], None, "no value"),
        (["1", "1", "1"], "classification", "one class"),
    ):
        with pytest.raises(FileError, match=expected):
            read_targets(table(y=cells), ["y"], task, "m.csv")


def test_doubtful_targets_are_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pyg_kernels.molecules")
    doubts = ["warning: none is a class of y: empty cells are missing ones"]
    doubts.append("warning: classes of y differ in case only: High, high, none")
    numbers = ["all targets are 0 or 1: for classes, --task classification"]
    for words, task, classes, said in (
        ("0 1", None, None, numbers),
        ("0 1", "regression", None, []),
        ("0 1", "classification", [["0", "1"]], []),
        ("none high High", None, [["High", "high", "none"]], doubts),
    ):
        caplog.clear()
        assert read_targets(table(y=words.split() * 9), ["y"], task, "m.csv")[1] == classes
        assert caplog.messages == said


def test_invalid_smiles_are_listed_with_their_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pyg_kernels.molecules")
    frame = table(smiles=["C", "C(", "", "CCO"])
    with pytest.raises(FileError, match=r"2 invalid SMILES \(line 3: .*; line 4: .*--skip-invalid"):
        read_rows(frame, "smiles", "m.csv", False)
    molecules, known = read_rows(frame, "smiles", "m.csv", True)
    assert (molecules.smiles, list(known.index)) == (["C", "CCO"], [2, 5])
    assert caplog.messages == ["warning: m.csv: 2 invalid SMILES left out, lines 3, 4"]
