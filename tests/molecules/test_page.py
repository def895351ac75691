"""The documentation's pages run."""

import re
from pathlib import Path
from typing import Any

import pytest

from pyg_kernels.molecules import MoleculeRegressor
from pyg_kernels.molecules.command import main, parser
from tests.molecules.sets import LOGP, SMALL, SMILES
from tests.pages import DOCS, code_blocks


def snippet(start: str) -> str:
    """The block of code of the page on estimators that has this text."""
    return next(block for block in code_blocks("molecule_estimators.rst") if start in block)


def test_from_a_csv_to_a_prediction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{text},{y}" for text, y in zip(SMILES * 3, [*LOGP] * 3, strict=True)]
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
    monkeypatch.syspath_prepend(tmp_path)
    fitted = MoleculeRegressor("mypkg.nets:Net", **SMALL).fit(SMILES, LOGP)
    assert fitted.transform(SMILES[:3]).shape == (3, SMALL["hidden_channels"])


def commands(page: str) -> list[list[str]]:
    """The words of the commands that stand on lines of their own."""
    return [
        line.split()[1:]
        for line in (DOCS / page).read_text().replace("\\\n", "").splitlines()
        if line.startswith("   pyg-kernels ")
    ]


def test_the_tutorial_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna")
    pytest.importorskip("onnxscript")
    monkeypatch.chdir(tmp_path)
    Path("new.csv").write_text("\n".join(["smiles", *SMILES[:12]]))
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
