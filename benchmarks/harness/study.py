"""A study: a results folder in which every cell (a model, seed, fold, size) is computed once.

``OUT/configuration.json`` has the options, a fingerprint of the data, and versions.
``OUT/runs/NAME/record.json`` has the result of a cell; it is written last, beside the other files
of the cell. ``metrics.json``, ``table.md`` and pictures are made anew from all records. An
interrupted study goes on with ``--resume``; a changed option or changed data is refused by name.
"""

import json
import multiprocessing
import os
import platform
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tqdm import tqdm

from benchmarks.harness.errors import InputError, RunError, as_input_error, naming_files, say
from benchmarks.harness.files import write_bytes, write_text
from benchmarks.harness.options import Results, flag
from benchmarks.harness.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONFIGURATION = "configuration.json"
METRICS = "metrics.json"
RUNS = "runs"
RECORD = "record.json"
BEGUN = "unfinished"  # a file in the folder of a cell that has no record yet
GIT_SECONDS = 10  # if git takes longer, the commit is not recorded
APART = ("history", "about")  # keys of a record that are not in metrics.json
Record = dict[str, Any]
T = TypeVar("T")
K = TypeVar("K")


class Cell(Protocol):
    """A unit of computation: the name of its folder, and its displayed title."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...


@dataclass(frozen=True)
class Report:
    """The tables, pictures and files that show a study."""

    tables: Sequence[Table]  # printed, and written as ``table.md``
    # by the name of their file
    pictures: Mapping[str, Callable[[], "Figure"]] = field(default_factory=dict)
    write: Callable[[Path], None] = lambda out: None  # writes other files into the results folder
    written: Sequence[Table] = ()  # tables that are written and not printed


@dataclass
class Study:
    """A results folder."""

    program: str  # the module that keeps it; folders of other modules are refused
    # the given options: a :class:`~benchmarks.harness.options.Options` with the fields of
    # :class:`~benchmarks.harness.options.Results`
    options: Results
    out: Path
    # a fingerprint of the data, compared like options; a continuation may add entries
    data: Mapping[str, Any] = field(default_factory=dict)
    packages: Sequence[str] = ("torch", "numpy")  # packages whose versions are recorded
    # names or patterns of all pictures, other files and folders that a call may leave
    files: Sequence[str] = ()
    # the configuration of each model, by name. A model that is in the folder already must be the
    # same. Once the folder is open, models of earlier calls come first here.
    models: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)  # further facts to record
    unused: Callable[[Mapping[str, Any]], set[str]] = lambda model: set()  # settings without effect

    def open(self) -> None:
        """Makes the folder, or finds in it the study to continue or show."""
        found = self.check()
        with as_input_error():
            if found and self.options.overwrite:
                self._remove_results()
            else:
                self.models = {**found.get("models", {}), **self.models}
                self.data = {**found.get("data", {}), **self.data}
            if self.options.report:
                return
            (self.out / RUNS).mkdir(parents=True, exist_ok=True)
            content = {
                "program": self.program,
                "options": self.options.values(),
                "data": dict(self.data),
                **({"models": dict(self.models)} if self.models else {}),
                **self.facts,
                **machine(self.packages),
                "commit": commit_of_code(),
            }
            write_text(self.out / CONFIGURATION, json.dumps(content, indent=1))

    def check(self) -> dict[str, Any]:
        """The folder's configuration; checks that this study may continue, show or replace it."""
        options, out = self.options, self.out
        keep = options.resume or options.report
        with as_input_error():
            if not out.exists() or not any(out.iterdir()):
                if options.report:
                    raise InputError(f"--report: {out} holds no results")
                return {}
            if not (out / CONFIGURATION).exists():
                raise InputError(f"--out {out} holds files that are not results of this module")
            if not (keep or options.overwrite):
                ways = "--resume to continue them, --overwrite to replace them, or another --out"
                raise InputError(f"--out {out} already holds results; give {ways}")
            found = self._read(out / CONFIGURATION)
            if found.get("program") != self.program or not isinstance(found.get("options"), dict):
                what = "is damaged or of another command; remove its folder yourself"
                raise InputError(f"{out / CONFIGURATION} {what}")
            if keep:
                self._compare(found)
            return found

    def run(
        self,
        cells: Sequence[Cell],
        compute: Callable[[Any, Path], Record],
        is_done: Callable[[Any, Record], bool] = lambda cell, record: True,
        outcome: Callable[[Record], str] = lambda record: "done",
    ) -> None:
        """Computes the cells without a record; `compute` may leave files in the folder it gets."""
        if self.options.report:
            return

        def has_record(cell: Cell) -> bool:
            path = self.folder(cell.name) / RECORD
            return path.exists() and is_done(cell, self._read(path))

        todo = [cell for cell in cells if not has_record(cell)]
        show, done = self.options.show(), len(cells) - len(todo)
        try:
            with tqdm(total=len(cells), initial=done, disable=show != "bar", leave=False) as bar:
                for number, cell in enumerate(todo, done + 1):
                    bar.set_description_str(cell.title)
                    folder = self.folder(cell.name)
                    with naming_files(self.out):
                        folder.mkdir(parents=True, exist_ok=True)
                        (folder / BEGUN).touch()
                    record = compute(cell, folder)
                    with naming_files(self.out):
                        write_text(folder / RECORD, json.dumps(record, indent=1))
                        (folder / BEGUN).unlink(missing_ok=True)
                        self._write_metrics(self.records())
                    bar.update()
                    if show == "lines":
                        say(f"{number}/{len(cells)} {cell.title}: {outcome(record)}")
        except KeyboardInterrupt:
            raise KeyboardInterrupt("continue with the same command and --resume") from None

    def records(self) -> list[Record]:
        """The records of all finished cells in the folder, also of earlier calls, by name."""
        return [self._read(path) for path in sorted(self.out.glob(f"{RUNS}/*/{RECORD}"))]

    def folder(self, name: str) -> Path:
        return self.out / RUNS / name

    def finish(self, report: Report, records: Sequence[Record] | None = None) -> None:
        """Prints the tables and writes them, the pictures, ``metrics.json`` and other files."""
        say("\n\n".join(table.text() for table in report.tables))
        with naming_files(self.out):
            self._write_metrics(self.records() if records is None else records)
            write_report(self.out, (*report.tables, *report.written), report.pictures)
            report.write(self.out)
        if not self.options.quiet:
            say(f"\nresults in {self.out}")

    def _write_metrics(self, records: Sequence[Record]) -> None:
        kept = [{k: v for k, v in record.items() if k not in APART} for record in records]
        write_text(self.out / METRICS, json.dumps(kept, indent=1))

    def _read(self, path: Path) -> Record:
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"{path} is damaged; remove its folder to compute it again") from error

    def _compare(self, found: Mapping[str, Any]) -> None:
        word = "--report" if self.options.report else "--resume"
        wanted = {flag(name): value for name, value in self.options.fixed().items()}
        known = found.get("data", {})
        data = json.loads(json.dumps(dict(self.data)))
        wanted |= {name: value for name, value in data.items() if name in known}
        defaults = {flag(one.name): one.default for one in fields(self.options)}
        made = json.loads(json.dumps(defaults, default=str))
        made |= {flag(name): value for name, value in found["options"].items()} | known
        for name, value in wanted.items():
            if made.get(name) != value:
                before = f"{name} {made.get(name)!r}"
                raise InputError(f"{word}: {self.out} was made with {before}, not {value!r}")
        models = found.get("models", {})
        for name, model in json.loads(json.dumps(dict(self.models))).items():
            held = models.get(name, model)
            # A setting that one of the two does not have counts as off there.
            pairs = {
                key: (held.get(key), model.get(key))
                for key in {**held, **model}.keys() - self.unused(model)
            }
            other = {
                key: old
                for key, (old, new) in pairs.items()
                if old != new and (old or new or {key} <= held.keys() & model.keys())
            }
            if other:
                what = f"{name} of another size or with other options ({other})"
                raise InputError(f"{word}: {self.out} holds {what}")

    def _remove_results(self) -> None:
        for name in (RECORD, BEGUN):
            for path in self.out.glob(f"{RUNS}/*/{name}"):
                shutil.rmtree(path.parent, ignore_errors=True)
        for pattern in (METRICS, "table.md", *self.files, CONFIGURATION):
            for path in self.out.glob(pattern):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def in_own_process(work: Callable[..., T], *arguments: object) -> T:
    """The result of `work` in a fresh process, which ends when this process is interrupted."""
    spawn, ignored = multiprocessing.get_context("spawn"), (signal.SIGINT, signal.SIG_IGN)
    pool = ProcessPoolExecutor(1, spawn, signal.signal, ignored)
    try:
        return pool.submit(work, *arguments).result()
    except BrokenProcessPool:
        raise RunError("the process was killed, perhaps for want of memory") from None
    except KeyboardInterrupt:
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown()


def machine(packages: Sequence[str]) -> dict[str, Any]:
    """Processor, cores and versions, to be written beside results."""
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for name in packages:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    processor = platform.processor()
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.partition(":")[2].strip() for line in file if "model name" in line]
        processor = names[0] if names else processor
    return {"versions": versions, "processor": processor, "cores": os.cpu_count()}


def commit_of_code() -> str | None:
    """The full hash of this code's commit, with a ``+`` if tracked files have changed.

    ``None`` outside a repository, or if git is missing or does not answer.
    """
    here = Path(__file__).resolve()

    def git(*words: str) -> str:
        command = ["git", "-C", str(here.parent), "--no-optional-locks", *words]
        how: dict[str, Any] = {"stderr": subprocess.PIPE, "timeout": GIT_SECONDS}
        return subprocess.check_output(command, text=True, **how)

    try:
        # An installed package may lie within another project's repository, which does not track it.
        git("ls-files", "--error-unmatch", here.name)
        return git("describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+").strip()
    except (OSError, subprocess.SubprocessError):
        return None


def grouped(records: Sequence[Record], *keys: str) -> list[list[Record]]:
    """Groups of records that agree in some keys, in the order of each group's first record."""
    return list(groups(records, itemgetter(*keys)).values())


def groups(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """The items of each key; keys are in the order of their first items."""
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def rows_table(
    caption: str, rows: Sequence[T], columns: Mapping[str, Callable[[T], object]]
) -> Table:
    """A table with a line for each row, whose cells are the columns' functions of the row."""
    cells = [[str(cell(row)) for cell in columns.values()] for row in rows]
    return Table(caption, tuple(columns), cells)


def write_report(
    out: Path,
    tables: Sequence[Table],
    pictures: Mapping[str, Callable[[], "Figure"]],
    notes: Sequence[str] = (),
) -> None:
    """Writes ``table.md``, with further lines below the tables, and the pictures."""
    text = "\n\n".join([*(table.markdown() for table in tables), *notes])
    write_text(out / "table.md", f"{text}\n")
    for name, draw in pictures.items():
        write_bytes(out / name, _png(draw))


def _png(draw: Callable[[], "Figure"]) -> bytes:
    import matplotlib

    from benchmarks.harness.summary import png

    with matplotlib.rc_context({"text.parse_math": False}):  # a $ in a name is a $
        return png(draw())
