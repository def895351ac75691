"""Fixtures: small molecule files, commands called in this process, and the results of runs."""

import importlib.util
import json
import re
import signal
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.datasets.conftest import real_data, serve  # noqa: F401

if importlib.util.find_spec("lightning") is None:
    collect_ignore_glob = ["*"]  # all tests here need the extra 'bench'

Rows = list[dict[str, str]]
Call = Callable[..., tuple[int, str, str]]


def main_of(program: str) -> Callable[[list[str]], int]:
    """The function that ``python -m program`` calls."""
    module = import_module(program)
    return (module if hasattr(module, "main") else import_module(f"{program}.__main__")).main


def done(program: str, *words: object) -> None:
    assert main_of(program)([str(word) for word in words]) == 0


def metrics_of(out: Path) -> Any:
    return json.loads((out / "metrics.json").read_text())


def table_of(out: Path, **options: Any) -> Any:
    import pandas

    return pandas.read_csv(out / "predictions.csv", **options)


def runs_of(out: Path, table: Any = None, **columns: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """Each record, and the prediction rows that match its model, seed and further columns."""
    table = table_of(out) if table is None else table
    keys = {"model": "model", "seed": "seed", **columns}
    for record in metrics_of(out):
        wanted = [record[key] for key in keys.values()]
        yield record, table[(table[list(keys)] == wanted).all(axis=1)]


def outcome(out: Path) -> dict[str, Any]:
    """The records, logs, predictions and network weights in a folder, without the seconds."""
    import pandas

    found: dict[str, Any] = {}
    for path in sorted(out.rglob("*")):
        name = str(path.relative_to(out))
        if path.name in ("record.json", "metrics.json", "predictions.csv"):
            found[name] = re.sub(r'"\w*seconds\w*": [\d.e+-]+', "", path.read_text())
        elif path.name == "metrics.csv":
            found[name] = pandas.read_csv(path).drop(columns="seconds").to_csv()
        elif path.name in ("best.ckpt", "checkpoint.pt"):
            content = torch.load(path, weights_only=True)
            weights = content.get("state_dict", content.get("network"))
            found[name] = {k: v.tolist() for k, v in weights.items()}
    return found


def printed(result: tuple[int, str, str]) -> str:
    """The standard output of a command that succeeded and printed no errors."""
    status, out, err = result
    assert (status, err) == (0, "")
    return out


def assert_refused(result: tuple[int, str, str], said: str) -> None:
    """Checks that bad input gives exit status 2 and one line, which contains `said`."""
    status, _, err = result
    assert (status, err.count("\n")) == (2, 1)
    assert said in err


@pytest.fixture(autouse=True)
def _leave_no_trace() -> Iterator[None]:
    """One thread is enough for small models. After one interrupt Lightning ignores all others."""
    handler, threads = signal.getsignal(signal.SIGINT), torch.get_num_threads()
    state = torch.get_rng_state()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    signal.signal(signal.SIGINT, handler)
    torch.set_num_threads(threads)
    torch.set_rng_state(state)


@pytest.fixture
def drawn() -> None:
    """Draws the pictures in this test; they take most of the time of a small experiment."""


@pytest.fixture(autouse=True)
def _undrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves pictures empty in tests that do not use the fixture `drawn`."""
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr("benchmarks.harness.study._png", lambda draw: b"")


@pytest.fixture(scope="session")
def assay() -> Any:
    """All 1,017 molecules of RDKit's Free-Wilson example, read once."""
    pytest.importorskip("rdkit", reason="molecules need the extra 'mol'")
    from pyg_kernels.datasets import ChEMBLSulfonamides

    return ChEMBLSulfonamides()


@pytest.fixture(scope="session")
def sulfonamides(assay: Any) -> Rows:
    """60 molecules of the assay, spread over its potencies."""
    some = assay[list(range(0, len(assay), 16))[:60]]
    pairs = zip(some.smiles, some.targets.flatten().tolist(), strict=True)
    return [{"smiles": s, "id": f"M{k}", "pIC50": f"{y:.5g}"} for k, (s, y) in enumerate(pairs)]


@pytest.fixture
def write_csv(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows as ``NAME.csv`` in the test's folder."""
    import pandas

    def write(rows: Rows, name: str = "molecules") -> Path:
        path = tmp_path / f"{name}.csv"
        pandas.DataFrame(rows).to_csv(path, index=False)
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
def call(call_main: Call, request: pytest.FixtureRequest) -> Call:
    """Calls the command that the test's module names in ``PROGRAM``."""
    return partial(call_main, main_of(request.module.PROGRAM))


@pytest.fixture
def compare(call: Call, request: pytest.FixtureRequest, tmp_path: Path) -> Call:
    """Calls it with the module's ``SMALL`` and the folder ``out``; later options override these."""
    return partial(call, *request.module.SMALL, "--device", "cpu", "--out", tmp_path / "out")


@pytest.fixture
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computes intervals in molecule reports from 20 rounds; they need not be exact."""
    for rounds in ("ROUNDS", "FEW_ROUNDS"):
        monkeypatch.setattr(f"benchmarks.molecules.report.{rounds}", 20)
