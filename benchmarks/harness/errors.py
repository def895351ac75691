"""The ways a run can end early with one line instead of a traceback, and printing safely."""

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

OWN = ("", "benchmarks", "pyg_kernels")  # packages that no extra brings


class InputError(ValueError):
    """An input that cannot work; the message says what would. Exit status 2."""

    status = 2


class RunError(RuntimeError):
    """Training diverged, or a measurement failed. Exit status 1; finished results are kept."""

    status = 1


@contextmanager
def naming_files(folder: Path | None = None) -> Iterator[None]:
    """Turns file errors, such as a full disk, into an :class:`InputError` that names the file."""
    try:
        yield
    except OSError as error:
        name, reason = error.filename or folder, error.strerror or _one_line(error)
        raise InputError(f"{name}: {reason}" if name else reason) from error


@contextmanager
def as_input_error() -> Iterator[None]:
    """Turns the errors of reading, splitting and writing files into :class:`InputError`.

    They include a missing pyarrow, which reads and writes Parquet.
    """
    try:
        with naming_files():
            yield
    except (ValueError, ImportError) as error:
        if isinstance(error, ImportError) and error.name != "pyarrow":
            raise
        raise InputError(_one_line(error)) from error


@contextmanager
def naming_extras(extras: str) -> Iterator[None]:
    """Turns a failed import of an extra's package into an :class:`InputError`."""
    try:
        yield
    except ImportError as error:
        missing = error.__cause__ if isinstance(error.__cause__, ImportError) else error
        package = (missing.name or "").partition(".")[0]
        if package in OWN or not isinstance(missing, ModuleNotFoundError):
            raise
        raise InputError(f"{package} is not installed: pip install '.[{extras}]'") from error


def say(text: str) -> None:
    """Prints on standard output; once nobody reads it any more, work goes on in silence."""
    try:
        print(text, flush=True)
    except OSError as error:
        # Writing the rest of the buffer would fail again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise InputError(f"standard output: {error.strerror}") from error


def tell(text: str) -> None:
    """Prints on standard error."""
    print(text, file=sys.stderr)


def exit_status(program: str, command: Callable[[], int]) -> int:
    """Runs a command of a program; if it ends early, prints the reason in one line.

    The status is that of the command, or 1 (training diverged, a measurement failed), 2 or 130.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name may have letters it cannot encode
            stream.reconfigure(errors="replace")
    try:
        if os.environ.get("WORLD_SIZE", "1") != "1":
            raise InputError("this runs in one process; start it without torchrun")
        return command()
    except (InputError, RunError) as error:
        tell(f"{program}: error: {error}")
        return error.status
    except KeyboardInterrupt as interrupt:
        hint = f"; {interrupt}" if str(interrupt) else ""
        tell(f"\n{program}: interrupted{hint}")
        return 130


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
