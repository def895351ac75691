"""The results folder of many trials, trained in one or several processes."""

import argparse
import json
import multiprocessing
import os
import platform
import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from queue import Empty
from typing import Any, Protocol

import torch
from matplotlib.figure import Figure

from benchmarks.harness.activations.display import Display, estimate
from benchmarks.harness.activations.trial import (
    StoppedError,
    Tell,
    Training,
    Trial,
    finished,
    read_record,
)
from benchmarks.harness.errors import InputError, as_input_error, say
from benchmarks.harness.files import write_bytes, write_text
from benchmarks.harness.folder import holds_results
from benchmarks.harness.summary import png
from benchmarks.harness.table import Table

CONFIGURATION = "configuration.json"
TRIALS = "trials"
PACKAGES = ("torch", "numpy")
Record = dict[str, Any]

# Of a worker process: whom to tell, and when to stop.
_worker: dict[str, Any] = {}


class Report(Protocol):
    """What is shown of finished trials."""

    @property
    def files(self) -> tuple[str, ...]:
        """The names of all pictures."""
        ...

    def tables(self, settings: dict[str, Any], records: Sequence[Record]) -> list[Table]:
        """The tables."""
        ...

    def pictures(
        self, settings: dict[str, Any], records: Sequence[Record], folder: Path
    ) -> dict[str, Figure]:
        """Pictures by the name of their file.

        Args:
            settings: What all trials have in common.
            records: The finished trials.
            folder (Path): Where their checkpoints lie.
        """
        ...


@dataclass(frozen=True)
class Study:
    """Trials in a folder.

    Args:
        settings: What all trials of the folder have in common.
        trials: Those of this call; the folder may hold others.
        out (Path): The results folder.
        report: Writes the pictures and gives the tables.
    """

    settings: dict[str, Any]
    trials: Sequence[Trial]
    out: Path
    report: Report

    def carry_out(self, options: argparse.Namespace, show: str) -> None:
        """Trains what the options ask for, prints the tables, writes the report.

        Args:
            options: Those of running and of results.
            show (str): ``'bar'``, ``'lines'`` or ``'nothing'``.

        Raises:
            InputError: If networks or the folder cannot be made, read or written.
            KeyboardInterrupt: If interrupted, with a hint how to continue.
        """
        if not options.report:
            self._check()
            self._open_folder(options.resume, options.overwrite)
            todo = self._unfinished()
            if todo and not options.quiet:
                say(estimate(todo, options.processes))
            self._run(todo, options.processes, options.threads, show)
        settings = self._read_settings()
        records = self._records()
        if not records:
            raise InputError(f"--out {self.out} holds no finished trial")
        tables = self.report.tables(settings, records)
        say("\n\n".join(table.text() for table in tables))
        with as_input_error():
            self._write_records()
            text = "\n\n".join(table.markdown() for table in tables)
            write_text(self.out / "table.md", f"{text}\n")
            for name, figure in self.report.pictures(settings, records, self.folder).items():
                write_bytes(self.out / name, png(figure))
        if not options.quiet:
            say(f"\nresults in {self.out}")

    @property
    def folder(self) -> Path:
        """Where records and checkpoints lie."""
        return self.out / TRIALS

    def _check(self) -> None:
        """Builds the first network of each model: a mistake costs no training.

        Raises:
            InputError: If there is no such network.
        """
        with as_input_error(), torch.random.fork_rng(devices=[]):
            for trial in {trial.model: trial for trial in self.trials}.values():
                trial.network()

    def _open_folder(self, resume: bool, overwrite: bool) -> None:
        """Makes the results folder, or finds the interrupted study in it.

        Raises:
            InputError: If the folder is not empty and neither is asked for, holds something else,
                or was made with other settings.
        """
        with as_input_error():
            if holds_results(self.out, CONFIGURATION, resume, overwrite):
                found = self._read_settings()
                if resume:
                    self._compare(found)
                else:
                    self._remove_results()
            self.folder.mkdir(parents=True, exist_ok=True)
            configuration = {
                "settings": self.settings,
                "versions": {
                    "python": platform.python_version(),
                    **{name: version(name) for name in PACKAGES},
                },
            }
            write_text(self.out / CONFIGURATION, json.dumps(configuration, indent=1))

    def _unfinished(self) -> list[Trial]:
        return [trial for trial in self.trials if finished(trial, self.folder) is None]

    def _run(self, todo: Sequence[Trial], processes: int, threads: int, show: str) -> None:
        """Trains some trials, `processes` at a time."""
        progress = Display(todo, len(self.trials), show)
        try:
            with _stopping_signals() as stopped:
                if processes == 1 or len(todo) < 2:
                    self._in_this_process(todo, threads, stopped, progress)
                else:
                    self._in_processes(todo, processes, threads, stopped, progress)
        except (KeyboardInterrupt, StoppedError):
            raise KeyboardInterrupt("continue with the same command and --resume") from None
        finally:
            progress.close()
            self._write_records()

    def _records(self) -> list[Record]:
        """All finished trials of the folder, also those of other calls."""
        return [read_record(path) for path in sorted(self.folder.glob("*.json"))]

    def _write_records(self) -> None:
        """Writes ``metrics.json``: the records without their history."""
        records = [{k: v for k, v in one.items() if k != "history"} for one in self._records()]
        write_text(self.out / "metrics.json", json.dumps(records, indent=1))

    def _in_this_process(
        self,
        todo: Sequence[Trial],
        threads: int,
        stopped: threading.Event,
        progress: Display,
    ) -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            for trial in todo:
                record = Training(trial, self.folder).run(stopped.is_set, progress.checked)
                progress.finished(trial, record)
                self._write_records()
        finally:
            torch.set_num_threads(before)

    def _in_processes(
        self,
        todo: Sequence[Trial],
        processes: int,
        threads: int,
        stopped: threading.Event,
        progress: Display,
    ) -> None:
        context = multiprocessing.get_context("spawn")
        stop, checks = context.Event(), context.Queue()
        told = (stop, checks, os.getpid(), threads)
        with ProcessPoolExecutor(
            min(processes, len(todo)), context, initializer=_begin, initargs=told
        ) as pool:
            running: dict[Future[Record], Trial] = {
                pool.submit(_train, trial, self.folder): trial for trial in todo
            }
            try:
                while running:
                    done, _ = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                    for name, check in _waiting(checks):
                        progress.checked(name, check)
                    for future in done:
                        progress.finished(running.pop(future), future.result())
                        self._write_records()
                    if stopped.is_set():
                        raise KeyboardInterrupt
            finally:
                stop.set()
                pool.shutdown(wait=True, cancel_futures=True)

    def _read_settings(self) -> dict[str, Any]:
        path = self.out / CONFIGURATION
        with as_input_error():
            text = path.read_text(encoding="utf-8")
        try:
            found = json.loads(text)["settings"]
            if found["experiment"] == self.settings["experiment"]:
                return dict(found)
        except (ValueError, KeyError, TypeError):
            pass
        raise InputError(f"{path} is damaged or not of this module; remove its folder yourself")

    def _compare(self, found: dict[str, Any]) -> None:
        for name, value in json.loads(json.dumps(self.settings)).items():
            before = found.get(name)
            if before != value:
                raise InputError(
                    f"--resume: {self.out} was made with {name} {before!r}, not {value!r}"
                )

    def _remove_results(self) -> None:
        """Removes what a study wrote and nothing else."""
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in ("metrics.json", "table.md", *self.report.files, CONFIGURATION):
            (self.out / name).unlink(missing_ok=True)


def _begin(stop: Any, checks: Any, parent: int, threads: int) -> None:
    """Readies a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    checks.cancel_join_thread()
    torch.set_num_threads(threads)
    _worker.update(stop=stop, checks=checks, parent=parent)


def _train(trial: Trial, folder: Path) -> Record:
    def stop() -> bool:
        return bool(_worker["stop"].is_set()) or os.getppid() != _worker["parent"]

    tell: Tell = lambda name, check: _worker["checks"].put((name, check))  # noqa: E731
    return Training(trial, folder).run(stop, tell)


def _waiting(queue: Any) -> Iterator[tuple[str, Record]]:
    while True:
        try:
            yield queue.get_nowait()
        except Empty:
            return


@contextmanager
def _stopping_signals() -> Iterator[threading.Event]:
    """An event that is set by the signals that end a program, which then ends in its own time."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(one, lambda *_: event.set()) for one in signals]
    try:
        yield event
    finally:
        for one, handler in zip(signals, before, strict=True):
            signal.signal(one, handler)
