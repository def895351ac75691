"""``pyg-kernels``: one contract for its commands, and what each of them writes."""

import json
import re
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem
from scipy.stats import spearmanr
from sklearn import metrics

from pyg_kernels.chem import murcko_scaffolds
from pyg_kernels.molecules import MoleculeRegressor, load, runs, splits
from pyg_kernels.molecules.command import main, parser
from pyg_kernels.molecules.inputs import Molecules
from pyg_kernels.molecules.runs import classification_scores, regression_scores
from tests.molecules.sets import LOGP, NETWORK, SMALL, run, train
from tests.molecules.sets import SMILES as RINGS
from tests.pages import DOCS, code_blocks

SMILES = [
    prefix + middle + suffix
    for prefix in ("C", "CC", "CCC", "N", "OC")
    for middle in ("", "C(C)", "c1ccc(cc1)", "C1CCC(CC1)", "C(=O)", "c1ccncc1C")
    for suffix in ("O", "N", "Cl")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of 90 small molecules, and runs that were trained on them."""
    folder = tmp_path_factory.mktemp("command")
    atoms = np.array([Chem.MolFromSmiles(text).GetNumAtoms() for text in SMILES])
    rows = np.arange(len(SMILES))
    frame = pd.DataFrame(
        {
            "SMILES": SMILES,
            "size": atoms + 0.25 * (rows % 3),
            "half": [str(size) if size % 2 else "" for size in atoms],
            "big": np.where(atoms > 7, "True", "False"),
            "kind": np.array(["alcohol", "amine", "chloride"])[rows % 3],
            "series": rows // 3,
            "extra": rows % 3,
            "part": np.array(["train"] * 7 + ["valid"] + ["test"] * 2)[rows % 10],
        }
    )
    frame.to_csv(folder / "m.csv", index=False)
    frame.drop(columns="size").to_csv(folder / "new.csv", sep=";", index=False)
    trained = {
        "ridge": "size half --model wl-ridge --fractions 0.6 0.3 0.1",
        "extra": "size half --model wl-ridge --extra-columns extra --split scaffold",
        "net": f"size --model wl {NETWORK} --split column --split-column part",
        "classes": "kind --model wl-ridge",
        "binary": "big --model wl-ridge",
    }
    for name, words in trained.items():
        train(folder, name, words)
    return folder


def test_every_command_has_help(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    commands = re.findall(r"^    ([a-z]+) ", parser().format_help(), re.MULTILINE)
    assert len(commands) == 8
    for command in commands:
        run(tmp_path, f"{command} --help")
        assert command in capsys.readouterr().out


def assert_one_line(said: str, command: str) -> None:
    """Checks for an error of one line, after the line that says what begins."""
    lines = said.splitlines()
    assert len(lines) == 2 and lines[-1].startswith(f"pyg-kernels {command}: error: "), said


def test_bad_input_is_one_line_and_status_2(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.csv").write_text("smiles\nC\n")
    (folder / "again.csv").write_text("smiles,similarity,std_half\nC,1,2\n")
    (folder / "vector.csv").write_text("smiles,v0\nC,1\n")
    (folder / "w.csv").write_text("smiles,y,w,n\nC,1,1,1\nCC,2,,1\nCCC,3,1,-1\n")
    (folder / "none.csv").write_text("smiles\n\n\n")
    (folder / "odd.csv").write_text("smiles\nC(\n")
    (folder / "huge.csv").write_text("smiles,extra\nC,1.79e308\n")
    (folder / "empty").mkdir()
    for words, expected in (
        ("train +no.csv --target-columns y --out +o", "no.csv: No such file"),
        ("train +m.csv --target-columns y --out +o", "no column named 'y' (--target-columns)"),
        ("train +m.csv --target-columns kind size --out +o", "no finite number"),
        ("train +m.csv --target-columns size --split column --out +o", "--split-column"),
        ("train +m.csv --target-columns size --smiles-column x --out +o", "--smiles-column"),
        ("train +m.csv --target-columns size --metric roc-auc --out +o", "--metric roc-auc"),
        ("train +m.csv --target-columns size size --out +o", "'size' is given twice"),
        ("train +w.csv --target-columns y --weight-column w --out +o", "line 3: no weight"),
        ("train +w.csv --target-columns y --weight-column n --out +o", "line 4: no weight"),
        ("predict +ridge +none.csv --out +o.csv", "no row below the header"),
        ("predict +no +new.csv --out +o.csv", "no finished run"),
        ("predict +ridge +no.csv --out +o.csv", "no.csv: No such file"),
        ("predict +extra +bad.csv --out +o.csv", "no column named 'extra'"),
        ("predict +ridge +binary +new.csv --out +o.csv", "other targets"),
        ("predict +ridge +new.csv --out +no/o.csv", "folder that can be written"),
        ("explain +ridge +no.csv --out +o", "no.csv: No such file"),
        ("explain +net +new.csv --target y --out +o", "--target y"),
        (
            "predict +extra +huge.csv --out +o.csv",
            "huge.csv, lines 2 to 2: Input X contains inf",
        ),
        ("embed +ridge +no.csv --out +o.csv", "no.csv: No such file"),
        ("report +no", "no such folder"),
        ("report +empty", "no finished run"),
        ("example +no/o.csv", "folder that can be written"),
        ("train +m.csv --target-columns size --out +m.csv --overwrite", "m.csv is a file"),
        ("train +m.csv --target-columns size --out +m.csv/run", "m.csv is a file"),
        ("explain +net +new.csv --out +m.csv --overwrite", "m.csv is a file"),
        ("predict +ridge +again.csv --out +o.csv", "has std_half, similarity already"),
        ("embed +net +vector.csv --out +o.csv", "has v0 already"),
    ):
        said = run(folder, words, status=2)
        assert_one_line(said, words.split()[0])
        assert expected in said and not capsys.readouterr().out
        assert not (folder / "o").exists() and not (folder / "o.csv").exists()
    said = run(folder, "explain +net +odd.csv --skip-invalid --out +o", status=2)
    assert "odd.csv: no molecule can be read" in said and not (folder / "o").exists()
    for words in (
        "train x --out o --target-columns y --folds 1",
        "train x --out o --target-columns y --seed -1",
        "predict x new.csv --out o --far 1.5",
        "predict x new.csv --out o --coverage 1",
        "predict",
        "go",
    ):
        assert len(run(folder, words, status=2).splitlines()) == 1


def test_existing_outputs_are_refused(folder: Path) -> None:
    (folder / "there").mkdir()
    (folder / "there" / "mine.txt").write_text("mine")
    for words in (
        "train +m.csv --target-columns size --model wl-ridge --out +there",
        "predict +ridge +new.csv --out +there.csv",
        "explain +net +new.csv --limit 1 --out +there",
        "embed +ridge +new.csv --out +there.csv",
        "example +there.csv",
        "report + --out +there.csv",
    ):
        (folder / "there.csv").write_text("mine")
        assert "--overwrite" in run(folder, words, status=2)
        assert (folder / "there.csv").read_text() == (folder / "there" / "mine.txt").read_text()
        if ".csv" in words.split()[-1]:
            run(folder, words + " --overwrite")
            assert (folder / "there.csv").read_text() != "mine"
        elif words.startswith("train"):  # a folder of something else is never replaced
            run(folder, words + " --overwrite", status=2)


def test_scores_are_those_of_the_predictions(folder: Path) -> None:
    content = json.loads((folder / "ridge" / "metrics.json").read_text())
    found = pd.read_csv(folder / "ridge" / "predictions.csv")
    parts = pd.read_csv(folder / "m.csv")["part"]
    lines = pd.read_csv(folder / "net" / "predictions.csv")["line"]
    assert list(lines - 2) == list(parts.index[parts == "test"])
    for scores in content["scores"]:
        target = scores["target"]
        own = found[found[target].notna()]
        errors = own[target] - own[f"predicted_{target}"]
        assert scores["rmse"] == pytest.approx(float((errors**2).mean() ** 0.5), rel=1e-4)
        assert scores["test"] == len(own) and scores["split"] == "random, 0.6/0.3/0.1"
    classes = json.loads((folder / "classes" / "metrics.json").read_text())["scores"][0]
    assert set(classes) >= {"roc-auc", "pr-auc", "log-loss"}


def test_predictions_and_vectors_are_those_of_the_estimator(folder: Path) -> None:
    run(folder, "predict +ridge +new.csv --out +p.csv.gz --coverage 0.8")
    found = pd.read_csv(folder / "p.csv.gz")
    estimator = load(folder / "ridge" / "model")
    expected = [*estimator.predict(SMILES, return_std=True)]
    expected += estimator.predict_interval(SMILES, 0.8)
    for name, values in zip(("predicted", "std", "low", "high"), expected, strict=True):
        columns = found[[f"{name}_size", f"{name}_half"]]
        np.testing.assert_allclose(columns, values, rtol=1e-8)  # nine digits are written
    assert list(found["SMILES"]) == SMILES and found["similarity"].max() == 1
    for name, target in (("classes", "kind"), ("binary", "big")):
        run(folder, f"predict +{name} +new.csv --out +{name}.csv")
        estimator = load(folder / name / "model")
        columns = [f"probability_{target}_{word}" for word in estimator.classes_]
        found = pd.read_csv(folder / f"{name}.csv")
        np.testing.assert_allclose(found[columns], estimator.predict_proba(SMILES), rtol=1e-8)
        truth = found[target].astype(str).str.lower()
        assert (estimator.predict(SMILES) == truth).mean() > 0.7
    half = pd.read_csv(folder / "new.csv", sep=None, engine="python").assign(
        c=np.where(truth == truth.iloc[0], 9.5, 10.5)
    )
    half.to_csv(folder / "half.csv", index=False)
    words = "--target-columns c --task classification --model wl-ridge --out +half"
    run(folder, f"train +half.csv {words}")
    names = json.loads((folder / "half" / "run.json").read_text())["classes"][0]
    assert names == [*load(folder / "half" / "model").classes_]  # explanations need this order
    run(folder, "embed +net +new.csv --out +v.csv")
    found = pd.read_csv(folder / "v.csv").filter(regex=r"^v\d+$").to_numpy()
    expected = load(folder / "net" / "model").transform(SMILES)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_several_runs_are_averaged(folder: Path) -> None:
    found = []
    for names in ("+ridge", "+extra", "+ridge +extra"):
        run(folder, f"predict {names} +new.csv --out +several.csv --overwrite")
        found.append(pd.read_csv(folder / "several.csv"))
    means, stds = (np.stack([f[f"{name}_size"] for f in found]) for name in ("predicted", "std"))
    np.testing.assert_allclose(means[2], means[:2].mean(0), rtol=1e-4)
    variance = (stds[:2] ** 2).mean(0) + means[:2].var(0)
    np.testing.assert_allclose(stds[2], variance**0.5, rtol=1e-3)


def test_explanations_add_up(folder: Path) -> None:
    run(folder, "explain +net +new.csv --limit 4 --walks 2 --out +explained")
    assert "<svg" in (folder / "explained" / "explanation.html").read_text()
    shares = pd.read_csv(folder / "explained" / "explanation.csv")
    mean = load(folder / "net" / "model").predict(SMILES[:4])
    sums = shares[shares["part"].isin(["atom", "constant"])].groupby("line")["share"].sum()
    np.testing.assert_allclose(sums, mean, rtol=1e-4)
    assert list(sums.index) == [2, 3, 4, 5]
    assert (shares[shares["part"] == "walk"].groupby("line").size() == 2).all()


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], Any]]:
    """Lists the molecules that each estimator is fitted to, and its validation part."""
    found, fit = [], MoleculeRegressor.fit

    def recorded(self: MoleculeRegressor, X: Molecules, y: Any, **given: Any) -> Any:
        found.append((X.smiles, given["validation"]))
        return fit(self, X, y, **given)

    monkeypatch.setattr(MoleculeRegressor, "fit", recorded)
    return found


def test_groups_are_in_training_or_validation(folder: Path, fits: Any) -> None:
    series = dict(zip(SMILES, np.arange(len(SMILES)) // 3, strict=True))
    scaffolds = dict(zip(SMILES, murcko_scaffolds(SMILES), strict=True))
    for words, number, group in (
        ("--split scaffold", "--folds 2", scaffolds),
        ("--groups-column series", "--folds 2", series),
        ("--groups-column series", "--repeats 2", series),
    ):
        fits.clear()
        out = "inner" + (words + number).replace(" ", "")
        train(folder, out, f"size --model mean {words} {number}")
        assert len(fits) == int(number[-1]) + 1 and len(fits[-1][0]) == len(SMILES)
        for X, valid in fits:
            held = {group[X[place]] for place in valid}
            assert held and held.isdisjoint(group[text] for text in np.delete(X, valid))


def test_a_split_without_a_validation_part(folder: Path, fits: Any) -> None:
    """Each member holds out rows of its own; if there are groups, whole groups are held out."""
    number = len(SMILES)
    parts = ["train"] * (number - 3) + ["test"] * 3
    pd.read_csv(folder / "m.csv").assign(own=parts).to_csv(folder / "two.csv", index=False)
    words = "--target-columns size --model mean --ensemble-size 2 --out"
    run(folder, f"train +two.csv {words} +two --split column --split-column own")
    run(folder, f"train +m.csv {words} +shares --fractions 0.9 0 0.1")
    run(folder, f"train +m.csv {words} +whole --fractions 0.9 0 0.1 --groups-column series")
    given = [(len(smiles), valid) for smiles, valid in fits]
    assert given[0] == (number - 3, None) and given[1] == (int(0.9 * number), None)
    assert 0 < len(given[2][1]) < given[2][0] < number
    for name in ("two", "shares"):
        scored = json.loads((folder / name / "metrics.json").read_text())["scores"]
        assert [row["test"] for row in scored] == [number - given[name == "shares"][0]]


def test_one_group_is_divided_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pyg_kernels.molecules")
    assert splits.whole_groups(np.array(["a", "a", "b"]), np.array([0, 1]), 0) is None
    assert "one group is fitted, a:" in caplog.text


def test_a_target_without_intervals_leaves_others_theirs(folder: Path) -> None:
    train(folder, "some", "size half --model mean --fractions 0.6 0.2 0.2")
    said = run(folder, "predict +some +new.csv --coverage 0.92 --out +some.csv")
    assert "no intervals of half: " in said and "no intervals of size" not in said
    found = pd.read_csv(folder / "some.csv")
    assert found["low_size"].notna().all() and found["low_half"].isna().all()


def test_errors_of_torch_and_data_are_one_line(folder: Path) -> None:
    cuda = AssertionError("Torch not compiled\nwith CUDA")
    for error in (cuda, MemoryError(), TypeError("t"), KeyError("k")):
        with patch.object(runs, "report", side_effect=error):
            said = run(folder, "report +", status=2)
            assert_one_line(said, "report")
            assert type(error).__name__ in said and "--traceback" in said
            with pytest.raises(type(error)):
                run(folder, "report + --traceback")


def test_folds_and_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "size --model mean --groups-column series --folds 2 --repeats 2 --metric mae"
    train(folder, "folds", words)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["target", "metric", "mean", "std", "split", "test"]
    assert len(printed) == 2 and "groups of series, 2 folds x 2" in printed[1]
    found = pd.read_csv(folder / "folds" / "predictions.csv")
    assert len(found) == 2 * len(SMILES)
    series = found["line"].sub(2) // 3
    assert (found.groupby([series, found["part"].str[-1]])["part"].nunique() == 1).all()
    run(folder, "report +")
    report = capsys.readouterr().out
    assert all(name in report for name in ("folds", "ridge", "extra", "net", "binary"))


def test_parts_without_a_score_are_told() -> None:
    scores = [{"target": "y", "split": "s", "test": 5, "roc-auc": value} for value in (0.5, None)]
    found = runs._score_table(pd.DataFrame(scores), ["roc-auc"])
    assert found[["mean", "test"]].to_numpy().tolist() == [["0.5", 5]]
    assert found["split"][0] == "s (defined in 1 of 2)"


def test_scores_are_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    y, mean = rng.normal(size=(2, 30))
    y[3] = np.nan
    there = ~np.isnan(y)
    found = regression_scores(y, mean, mean - 1, mean + 1)
    assert found["r2"] == metrics.r2_score(y[there], mean[there])
    assert found["coverage"] == (np.abs(y - mean)[there] <= 1).mean()
    assert found["spearman"] == pytest.approx(spearmanr(y[there], mean[there]).statistic)
    probability = rng.dirichlet(np.ones(3), 30)
    classes = rng.integers(3, size=30).astype(float)
    found = classification_scores(classes, probability)
    auc = metrics.roc_auc_score(classes, probability, multi_class="ovr")
    assert found["roc-auc"] == pytest.approx(auc)
    assert found["log-loss"] == pytest.approx(metrics.log_loss(classes, probability))
    undefined = classification_scores(np.zeros(4), np.full((4, 2), 0.5))
    assert np.isnan(undefined["roc-auc"]) and undefined["log-loss"] == pytest.approx(np.log(2))
    assert np.isnan(regression_scores(np.full(2, np.nan), *np.zeros((3, 2)))["rmse"])


# The examples on the documentation's pages run


def snippet(start: str) -> str:
    """The block of code with this text on the documentation's page on estimators."""
    return next(block for block in code_blocks("molecule_estimators.rst") if start in block)


def test_from_a_csv_to_a_prediction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{text},{y}" for text, y in zip(RINGS * 3, [*LOGP] * 3, strict=True)]
    Path("molecules.csv").write_text("\n".join(["smiles,logS", *rows]))
    names: dict[str, Any] = {}
    exec(snippet("reg.save"), names)
    assert (names["low"] <= names["mean"]).all()
    assert (tmp_path / "solubility" / "estimator.npz").is_file()


def test_add_your_own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "mypkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "nets.py").write_text(snippet("mypkg/nets.py"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["/nowhere", *filter(None, sys.path)])
    pd.DataFrame({"smiles": RINGS * 2, "y": [*LOGP, *LOGP]}).to_csv("m.csv", index=False)
    run(tmp_path, "train m.csv --target-columns y --model mypkg.nets:Net --epochs 1 --out run")
    fitted = MoleculeRegressor("mypkg.nets:Net", **SMALL).fit(RINGS, LOGP)
    assert fitted.transform(RINGS[:3]).shape == (3, SMALL["hidden_channels"])


def commands(page: str) -> list[list[str]]:
    """The words of each command that has a line of its own on this page."""
    return [
        line.split()[1:]
        for line in (DOCS / page).read_text().replace("\\\n", "").splitlines()
        if line.startswith("   pyg-kernels ")
    ]


def test_the_tutorial_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna")
    pytest.importorskip("onnxscript")
    monkeypatch.chdir(tmp_path)
    Path("new.csv").write_text("\n".join(["smiles", *RINGS[:12]]))
    few = {"--epochs": "1", "--trials": "1"}
    for words in commands("molecule_command.rst"):
        name = words[0]
        words = [few.get(before, word) for before, word in zip(["", *words], words, strict=False)]
        if "wl" in words and "--epochs" not in words:
            words += ["--epochs", "1"]
        if "wl" in words:
            words += ["--hidden-channels", "8", "--num-layers", "2"]
        if name == "example":
            assert main(words) == 0
            lines = Path("molecules.csv").read_text().splitlines()
            Path("molecules.csv").write_text("\n".join(lines[:61]))
            Path("more.csv").write_text("\n".join([lines[0], *lines[61:91]]))
        else:
            assert main([*words, "--threads", "1"]) == 0, words
    for written in ("explained/explanation.html", "search/best.yaml", "model.onnx", "table.csv"):
        assert (tmp_path / written).is_file()


def test_the_words_for_chemprops_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    page = (DOCS / "from_chemprop.rst").read_text()
    for line in re.findall(r"``pyg-kernels (.*?)``", page):
        config = "--target-columns y" if "--config" in line else ""
        parser().parse_args([*line.split(), *config.split()])
    for command in ("train", "tune", "predict"):
        with pytest.raises(SystemExit):
            parser().parse_args([command, "--help"])
    known = capsys.readouterr().out
    ours = re.findall(r"^     - (.*)$", page, re.MULTILINE)
    options = {option for text in ours for option in re.findall(r"--[a-z-]+", text)}
    assert options and all(option in known for option in options)
