"""The pictures, and the lines shown while training."""

import re

import pytest

pytest.importorskip("lightning", reason="the benchmark needs the extra 'bench'")

from benchmarks.harness.errors import InputError, naming_extras
from benchmarks.harness.molecules.data import DataChoice, load_molecules
from benchmarks.harness.molecules.report import parity_plot
from benchmarks.harness.training import Run


def test_parity_panels_are_square_and_say_which_targets_they_leave_out(
    compare, sulfonamides, write_csv, tmp_path
):
    rows = [
        {"smiles": r["smiles"]} | {f"y{k}": float(r["pIC50"]) * 10**k for k in range(5)}
        for r in sulfonamides
    ]
    path = write_csv(rows)
    assert compare("--csv", path, "--model", "gine", "mean")[0] == 0
    data = load_molecules(DataChoice(dataset="csv", csv=str(path)))
    runs = [Run.read(tmp_path / "out" / "runs" / f"{name}-seed0") for name in ("gine", "mean")]
    figure = parity_plot(runs, data)
    assert figure.get_suptitle() == "Test part, random split, the first 4 of 5 targets"
    assert len(figure.axes) == 8
    for axes in figure.axes:
        assert axes.get_xlim() == axes.get_ylim()
        assert axes.get_aspect() == 1


def test_small_errors_keep_their_digits(call, sulfonamides, write_csv, tmp_path):
    rows = [{"smiles": r["smiles"], "y": float(r["pIC50"]) * 1e-5} for r in sulfonamides]
    words = ("--csv", write_csv(rows), "--model", "gine", "--hidden", 8, "--device", "cpu")
    status, out, _ = call(*words, "--epochs", 2, "--out", tmp_path / "out")
    assert status == 0
    number = r"0\.0000\d{2,3}\b"
    assert re.search(rf"epoch 2/2, valid RMSE {number} \(best epoch \d: {number}\)", out)
    assert re.search(rf"gine .* {number}  +{number}  +{number} ", out)


def test_missing_extra_is_named_as_the_readme_installs_it():
    message = r"lightning is not installed: pip install '\.\[mol,bench\]'"
    with pytest.raises(InputError, match=message), naming_extras("mol,bench"):
        raise ImportError("no", name="lightning.pytorch")
