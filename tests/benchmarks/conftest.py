"""Small molecule files, and command lines called in this process."""

import csv
import importlib.util
import json
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from tests.datasets.conftest import real_data, serve  # noqa: F401

if TYPE_CHECKING:
    import pandas

if importlib.util.find_spec("lightning") is None:
    collect_ignore_glob = ["*"]  # all need the extra 'bench'

Rows = list[dict[str, str]]
Call = Callable[..., tuple[int, str, str]]


def metrics_of(out: Path) -> Any:
    """What ``metrics.json`` of a results folder holds."""
    return json.loads((out / "metrics.json").read_text())


def runs_of(
    out: Path, table: "pandas.DataFrame", **columns: str
) -> Iterator[tuple[dict[str, Any], "pandas.DataFrame"]]:
    """Each record of a results folder with its rows of the predictions, by model and seed, and by
    further columns of the table, as the records call them.
    """
    keys = {"model": "model", "seed": "seed", **columns}
    for record in metrics_of(out):
        wanted = [record[key] for key in keys.values()]
        yield record, table[(table[list(keys)] == wanted).all(axis=1)]


def printed(result: tuple[int, str, str]) -> str:
    """What a command prints that ends well and says nothing of errors."""
    status, out, err = result
    assert (status, err) == (0, "")
    return out


def assert_refused(result: tuple[int, str, str], said: str) -> None:
    """Bad input: exit status 2 and one line that says this."""
    status, _, err = result
    assert (status, err.count("\n")) == (2, 1)
    assert said in err


@pytest.fixture(autouse=True)
def _leave_no_trace() -> Iterator[None]:
    """Small models gain nothing from threads; Lightning ignores further interrupts after one."""
    handler, threads = signal.getsignal(signal.SIGINT), torch.get_num_threads()
    state = torch.get_rng_state()
    torch.set_num_threads(1)
    yield
    signal.signal(signal.SIGINT, handler)
    torch.set_num_threads(threads)
    torch.set_rng_state(state)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves pictures empty, which take most of the time of a small experiment."""
    from benchmarks.harness import study

    monkeypatch.setattr(study, "_png", lambda draw: b"")


@pytest.fixture(scope="session")
def assay() -> Any:
    """All 1,017 molecules of RDKit's Free-Wilson example, read once."""
    pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")
    from pyg_kernels.datasets import ChEMBLSulfonamides

    return ChEMBLSulfonamides()


@pytest.fixture(scope="session")
def sulfonamides() -> Rows:
    """60 molecules of RDKit's Free-Wilson example, spread over its potencies."""
    configuration = pytest.importorskip("rdkit.RDConfig", reason="molecules need the extra 'mol'")
    folder = Path(configuration.RDContribDir) / "FreeWilson" / "data"
    with open(folder / "CHEMBL2321810_act.csv", newline="") as file:
        potency = {row["Name"]: row["Act"] for row in csv.DictReader(file)}
    lines = (folder / "CHEMBL2321810.smi").read_text().splitlines()
    pairs = [line.split() for line in lines[::16][:60]]
    return [{"smiles": smiles, "id": f"M{name}", "pIC50": potency[name]} for smiles, name in pairs]


@pytest.fixture
def write_csv(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows as ``NAME.csv`` in the test's folder."""

    def write(rows: Rows, name: str = "molecules") -> Path:
        path = tmp_path / f"{name}.csv"
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        return path

    return write


@pytest.fixture
def molecules_csv(sulfonamides: Rows, write_csv: Callable[..., Path]) -> Path:
    """The 60 molecules as a file with the columns smiles, id, pIC50."""
    return write_csv(sulfonamides)


@pytest.fixture
def call_main(capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls a main function; gives exit status, standard output and standard error."""

    def run(main: Callable[[list[str]], int], *words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            status = main([str(word) for word in words])
        except SystemExit as stop:
            status = int(stop.code or 0)
        output = capsys.readouterr()
        return status, output.out, output.err

    return run


@pytest.fixture
def call(call_main: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Calls the command line of the molecule benchmark, whose intervals need not be exact."""
    pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")
    from benchmarks.molecules import report
    from benchmarks.molecules.__main__ import main

    for rounds in ("ROUNDS", "FEW_ROUNDS"):
        monkeypatch.setattr(report, rounds, 20)
    return partial(call_main, main)


@pytest.fixture
def compare(call: Call, tmp_path: Path) -> Call:
    """Fits small models, networks for 2 epochs, into ``out`` unless the words say otherwise."""

    small = ("--device", "cpu", "--hidden", 8, "--layers", 2, "--batch-size", 16, "--quiet")
    return partial(call, *small, "--epochs", 2, "--out", tmp_path / "out")
