"""The ways a run can end early with one line instead of a traceback, and printing safely."""

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness.processes import is_first, processes

EXTRA_PACKAGES = {
    "lightning",
    "torchmetrics",
    "matplotlib",
    "pandas",
    "tqdm",
    "bm25s",
    "captum",
    "jsonargparse",
    "rdkit",
    "ogb",
}


class InputError(ValueError):
    """What the user gave cannot work; the message says what would. Exit status 2."""

    status = 2


class DivergenceError(RuntimeError):
    """The validation error stopped being a number. Exit status 1; finished runs are kept."""

    status = 1


class MeasurementError(RuntimeError):
    """A measurement could not be made. Exit status 1; finished ones are kept."""

    status = 1


class EndedElsewhere(Exception):  # noqa: N818
    """Another process has met an error and the first one says it: this one ends in silence.

    Args:
        status (int): The exit status.
    """

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


@contextmanager
def as_input_error() -> Iterator[None]:
    """Turns the errors of reading, splitting and writing files into :class:`InputError`.

    One of them is that pyarrow, which reads and writes Parquet, is not installed.
    """
    try:
        yield
    except OSError as error:
        if error.strerror and error.filename:
            raise InputError(f"{error.filename}: {error.strerror}") from error
        raise InputError(_one_line(error)) from error
    except ValueError as error:
        raise InputError(_one_line(error)) from error
    except ImportError as error:
        if error.name != "pyarrow":
            raise
        raise InputError(_one_line(error)) from error


@contextmanager
def naming_files(folder: Path) -> Iterator[None]:
    """Turns the errors of writing results, such as a full disk, into :class:`InputError`.

    Args:
        folder (Path): Named where the error does not say which file it was.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or _one_line(error)
        raise InputError(f"{error.filename or folder}: {reason}") from error


@contextmanager
def naming_extras(extras: str) -> Iterator[None]:
    """Turns the error of importing a package of an extra into an :class:`InputError`.

    Args:
        extras (str): All extras that a program needs.
    """
    try:
        yield
    except ImportError as error:
        missing = error.__cause__ if isinstance(error.__cause__, ImportError) else error
        package = (missing.name or "").partition(".")[0]
        if package not in EXTRA_PACKAGES:
            raise
        raise InputError(f"{package} is not installed: pip install '.[{extras}]'") from error


def say(text: str, end: str = "\n") -> None:
    """Prints on standard output; where nobody reads it any more, work goes on in silence.

    Of several processes the first one prints.

    Raises:
        InputError: If standard output cannot be written for another reason, such as a full disk.
    """
    if not is_first():
        return
    try:
        print(text, end=end, flush=True)
    except OSError as error:
        # What is left in the buffer would fail again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise InputError(f"standard output: {error.strerror}") from error


def tell(text: str) -> None:
    """Prints on standard error, of several processes in the first one."""
    if is_first():
        print(text, file=sys.stderr)


def exit_status(program: str, command: Callable[[], int], several: bool = False) -> int:
    """Runs a command of a program, and says in one line why it ended early.

    Args:
        program (str): The name that the line begins with.
        command: What to run; gives the status of success.
        several (bool): Whether processes that ``torchrun`` starts can share the work.

    Returns:
        The exit status: the command's, 1 training diverged or a measurement failed, 2 bad input,
            130 interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name may have letters that it cannot write
            stream.reconfigure(errors="replace")
    line, number = "", 1
    try:
        with as_input_error():
            number = processes().number
        if number > 1 and not several:
            raise InputError(f"this runs in one process, not {number}; start it without torchrun")
        status = command()
    except EndedElsewhere as ended:
        status = ended.status
    except (InputError, DivergenceError, MeasurementError) as error:
        status, line = error.status, f"{program}: error: {error}"
        tell(line)
    except KeyboardInterrupt as interrupt:
        if number > 1:  # torchrun passes it on once more
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        hint = f"; {interrupt}" if str(interrupt) else ""
        tell(f"\n{program}: interrupted{hint}")
        return 130
    except SystemExit as stop:  # the argument parser's, which has said why
        if number == 1:
            raise
        status = int(stop.code or 0)
    return status if number == 1 else _end_together(status, line)


def _end_together(status: int, line: str) -> int:
    from benchmarks.harness.collective import end

    return end(status, line)


def progress(quiet: bool) -> str:
    """How it is shown: ``'bar'``, ``'lines'`` or ``'nothing'``, by the first process."""
    if quiet or not is_first():
        return "nothing"
    terminal = sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).lines > 0
    return "bar" if terminal else "lines"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
