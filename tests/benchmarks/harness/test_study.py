"""A study whose cells only compute numbers, its tables, and the memory of a process."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Literal
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from benchmarks.harness import memory
from benchmarks.harness.errors import InputError
from benchmarks.harness.memory import PeakMemory
from benchmarks.harness.options import Command, Device, Results, parse, run_commands, setting
from benchmarks.harness.study import Report, Study, commit_of_code, rows_table
from benchmarks.harness.table import Table, number_format
from tests.benchmarks.conftest import assert_refused, metrics_of, printed

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, kw_only=True)
class Squares(Device, Results):
    """Squares of numbers.

    Args:
        numbers: what is squared,
            one a cell
        power: the exponent
        kind: how it is said
        share: of something
        range: two ends
        loud: say it loud
        title: above the squares
        signs: below them
        framed: in a frame
    """

    numbers: tuple[int, ...] = setting((1, 2, 3), "number", least=0, free=True)
    power: int = setting(2, least=1, most=9)
    kind: Literal["plain", "fancy"] = setting("plain")
    share: float | None = setting(None, above=0, below=1)
    range: tuple[float, float] = setting((-1.0, 1.0))
    loud: bool = setting(False)
    title: str | None = setting(None)
    signs: tuple[str, ...] = setting(())
    framed: Literal["no", "yes", "auto"] = setting("auto")

    def check(self) -> None:
        if self.range[0] >= self.range[1]:
            raise InputError(f"--range must increase, got {self.range}")


def squared(power: int, cell: SimpleNamespace, folder: Path) -> dict[str, int]:
    with (folder / "computed").open("a") as file:
        file.write("x")
    if cell.value == 13:
        raise KeyboardInterrupt
    return {"number": cell.value, "result": cell.value**power}


def carry_out(options: Squares) -> None:
    """Squares numbers."""
    out = Path(options.out or "runs")
    study = Study("tests.squares", options, out, {"digest": 7}, files=("p.png",))
    study.open()
    cells = [SimpleNamespace(name=f"n{n}", title=f"number {n}", value=n) for n in options.numbers]
    study.run(cells, partial(squared, options.power), outcome=lambda r: str(r["result"]))
    columns = {"number": itemgetter("number"), "result": itemgetter("result")}
    study.finish(Report([rows_table("Squares", study.records(), columns)]))


COMMAND = Command(Squares, carry_out, "OUT holds squares.")


@pytest.fixture
def squares(call_main):
    """Calls the command."""
    return partial(call_main, partial(run_commands, "tests.squares", {"": COMMAND}))


def test_each_cell_is_computed_once_and_a_folder_grows(tmp_path: Path, squares) -> None:
    out = tmp_path / "out"
    assert "3/3 number 3: 9" in printed(squares("--out", out))
    printed(squares("--out", out, "--resume", "--numbers", 3, 4, "--device", "cpu"))
    assert [path.read_text() for path in out.glob("runs/*/computed")] == ["x"] * 4
    assert [record["result"] for record in metrics_of(out)] == [1, 4, 9, 16]
    assert (out / "table.md").read_text().endswith("| 4 | 16 |\n")
    configuration = json.loads((out / "configuration.json").read_text())
    assert configuration["options"]["numbers"] == [3, 4]
    assert configuration["versions"]["torch"] == version("torch")
    shown = printed(squares("--out", out, "--numbers", 1, 9, "--report", "--quiet"))
    assert shown.splitlines()[-1] == "4           16"  # what is finished, whatever is asked for


def test_other_folders_and_data_are_left_alone(tmp_path: Path, squares) -> None:
    out = tmp_path / "out"
    printed(squares("--out", out))
    configuration = out / "configuration.json"
    content = json.loads(configuration.read_text())
    for edit, said in (
        ({"program": "another"}, "of another command"),
        ({"data": {"digest": 8}}, "was made with digest 8, not 7"),
    ):
        configuration.write_text(json.dumps(content | edit))
        assert_refused(squares("--out", out, "--resume"), said)
    configuration.write_text(json.dumps(content))
    (out / "runs/n1/record.json").write_text("{")
    assert_refused(squares("--out", out, "--resume"), "runs/n1/record.json is damaged")
    (out / "mine.txt").write_text("kept")
    printed(squares("--out", out, "--overwrite", "--numbers", 5))
    left = {"configuration.json", "mine.txt", "runs"}
    assert {path.name for path in out.iterdir()} == {*left, "metrics.json", "table.md"}
    assert [path.name for path in (out / "runs").iterdir()] == ["n5"]
    assert squares("--out", out, "--overwrite", "--numbers", 13)[0] == 130
    assert {path.name for path in out.iterdir()} == left  # nothing is left of the earlier results


def test_a_configuration_and_a_file_of_options_are_read_back(tmp_path: Path, squares) -> None:
    read, out = partial(parse, "tests.squares", COMMAND), tmp_path / "out"
    printed(squares("--out", out, "--power", 3, "--loud", "--share", "0.5", "--number", 4, 4))
    made = read(["--config", str(out / "configuration.json")])
    assert made == Squares(power=3, loud=True, share=0.5, numbers=(4,))
    (tmp_path / "run.yaml").write_text("power: 4\nkind: fancy\nnumbers: [7]\n")
    file = ["--config", str(tmp_path / "run.yaml")]
    for words in ([*file, "--power", "5"], ["--power", "5", *file], ["--power=5", "=".join(file)]):
        assert read(words) == Squares(power=5, kind="fancy", numbers=(7,))
    (tmp_path / "next.yaml").write_text("power: 6\ntitle: null\nnumber: 8\nframed: no\n")
    words = [*file, "--config", str(tmp_path / "next.yaml")]  # 8 is a list, and "no" a word
    assert read(words) == Squares(power=6, kind="fancy", numbers=(8,), framed="no")
    for word in ("null", "None", "1", "[1]", "true"):  # all of these stay words
        assert read(["--title", word]).title == word


FILES = {
    "LIST": "numbers: many\n",
    "TABLE": "a,b\n1,2\nc,d\n",
    "NAME": "nmae: 3\n",
    "OPEN": "range: [0\n",
    "KIND": "kind: true\n",
}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--power 0", "--power must be an integer of at least 1 and of at most 9, got 0"),
        ("--power x", "--power: expected an integer, got x"),
        ("--share 1", "--share must be a finite number above 0 and below 1, got 1.0"),
        ("--share x", "--share: expected a finite number, got x"),
        ("--range 0 inf", "--range element 2: expected a finite number, got inf"),
        ("--kind odd", "--kind: expected one of 'plain', 'fancy', got odd"),
        ("--range 1 0", "--range must increase"),
        ("--nothing 1", "unrecognized arguments: --nothing 1"),
        ("--config missing.yaml", "missing.yaml"),
        ("--out=", "--out must not be empty"),
        ("--config LIST", "--numbers element 1: expected an integer, got many"),
        ("--config TABLE", "error: --config: it is no file of options\n"),
        ("--config", "--config"),
        ("--config NAME", "--nmae is not accepted"),
        ("--config OPEN", "error: --config: while parsing a flow sequence at line 1"),
        ("--config KIND", "--kind: expected one of 'plain', 'fancy', got True"),
    ],
)
def test_bad_words_are_one_line(tmp_path: Path, squares, words: str, message: str) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
        words = words.replace(name, str(tmp_path / name))
    result = squares(*words.split())
    assert_refused(result, message)
    assert result[2].startswith("tests.squares: error: ")


def test_help_has_docs_defaults_and_groups(squares) -> None:
    text = " ".join(printed(squares("--help")).split())
    for words in (
        *("what is squared, one a cell (1 2 3)", "how it is said: plain, fancy (plain)"),
        *("--loud, --no-loud", "squares of numbers:", "the results folder:", "OUT holds squares."),
    ):
        assert words in text


LINES = """
from benchmarks.harness.errors import exit_status, say
def work():
    for number in range(3):
        say(f"ü {number}")
    return 0
raise SystemExit(exit_status("lines", work))
"""


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a shell that prints three lines, not all of which can be written."""
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -c '{LINES}' {command}"],
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )


def test_work_goes_on_when_nobody_reads_and_a_full_disk_is_one_line() -> None:
    done = shell("| head -1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "? 0\n", "")
    if Path("/dev/full").exists():
        done = shell("> /dev/full")
        assert done.returncode == 2
        assert "lines: error: standard output: " in done.stderr


def test_commit_is_that_of_the_repository():
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    assert commit_of_code() == (git("rev-parse", "HEAD") + "+" * bool(changed) or None)


def test_columns_line_up_and_digits_follow_the_largest_number():
    table = Table("caption", ("model", "test"), [["wl-gated", "0.912 ± 0.010"], ["mean", "2.5"]])
    lines = table.text().splitlines()
    assert lines[0] == "caption"
    assert len({len(line) for line in lines[2:]}) == 1
    assert lines[-1] == "mean      " + "2.5".rjust(13)
    assert table.markdown().splitlines()[-3:] == [
        "| :-- | --: |",
        "| wl-gated | 0.912 ± 0.010 |",
        "| mean | 2.5 |",
    ]
    # A name with a bar and a line break does not break the columns.
    table = Table("caption", ("model", "a|b\nc"), [["mean", "2.5"]])
    assert len({len(line) for line in table.text().splitlines()[2:]}) == 1
    assert table.markdown().splitlines()[2] == "| model | a\\|b c |"
    for values, shown in (
        ([1.2345, 0.5], "1.234"),
        ([1234.5], "1234.500"),
        ([0.00123456, 0.001], "0.00123"),
        ([1.23456e-9], "1.235e-09"),
        ([1.23456e30], "1.235e+30"),
        ([0.0], "0.000"),
        ([0.25, float("nan"), float("inf")], "0.250"),
    ):
        assert f"{values[0]:{number_format(values)}}" == shown


MIB = 2**20


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_memory_does_not_grow_with_the_number_of_shapes():
    script = """
import torch
from benchmarks.harness.memory import PeakMemory

def multiply(some):
    for rows in some:
        with torch.autocast("cpu", torch.bfloat16):
            y = layer(torch.ones(rows, 64, requires_grad=True))
        y.sum().backward()

torch.set_num_threads(1)
layer = torch.nn.Linear(64, 64)
multiply(range(1000, 1050))
with PeakMemory(torch.device("cpu")) as memory:
    multiply(range(1050, 1200))
print(memory.peak)
"""
    free = {name: value for name, value in os.environ.items() if "CACHE_CAPACITY" not in name}
    command = [sys.executable, "-c", script]
    grown = int(subprocess.check_output(command, cwd=ROOT, env=free, text=True))
    assert grown < 60 * MIB  # kept memory of 150 shapes would be some hundreds of MiB


def test_peak_memory_counts_what_has_been_freed(monkeypatch):
    with PeakMemory(torch.device("cpu")) as first:
        np.ones(100 * MIB, dtype=np.uint8)
    assert 95 * MIB < first.peak < 130 * MIB
    with PeakMemory(torch.device("cpu")) as second:
        np.ones(40 * MIB, dtype=np.uint8)
    if sys.platform == "linux":  # an earlier peak hides no later one
        assert 35 * MIB < second.peak < 70 * MIB
    monkeypatch.setattr(memory, "open", Mock(side_effect=OSError), raising=False)  # without /proc
    assert memory.largest_resident() > first.peak


def test_settings_that_one_side_does_not_know_are_off(tmp_path: Path) -> None:
    """A folder of an earlier or a later version is continued if the unknown settings are off."""

    def opened(model: dict[str, object], **how: bool) -> Study:
        options = Squares(out=str(tmp_path / "out"), numbers=(1,), **how)
        return Study("tests.squares", options, tmp_path / "out", models={"a": model})

    opened({"width": 1, "counts": 0}).open()
    for same in ({"width": 1}, {"width": 1, "counts": 0, "more": False}):
        opened(same, resume=True).open()
        opened({"width": 1, "counts": 0}, overwrite=True).open()
    for other in (
        {"width": 2, "counts": 0},
        {"width": 1, "counts": 2},
        {"width": 1, "more": 3},
        {},
    ):
        with pytest.raises(InputError, match="holds a of another size or with other options"):
            opened(other, resume=True).open()
