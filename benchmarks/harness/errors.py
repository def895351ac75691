"""The ways a run can end early with one line instead of a traceback, and printing safely."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

EXTRA_PACKAGES = {"lightning", "torchmetrics", "matplotlib", "pandas", "tqdm", "rdkit"}


class InputError(ValueError):
    """What the user gave cannot work; the message says what would. Exit status 2."""


class DivergenceError(RuntimeError):
    """The validation error stopped being a number. Exit status 1; finished runs are kept."""


class MeasurementError(RuntimeError):
    """A measurement could not be made. Exit status 1; finished ones are kept."""


@contextmanager
def as_input_error() -> Iterator[None]:
    """Turns the errors of reading, splitting and writing files into :class:`InputError`."""
    try:
        yield
    except OSError as error:
        if error.strerror and error.filename:
            raise InputError(f"{error.filename}: {error.strerror}") from error
        raise InputError(_one_line(error)) from error
    except ValueError as error:
        raise InputError(_one_line(error)) from error


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

    Raises:
        InputError: If standard output cannot be written for another reason, such as a full disk.
    """
    try:
        print(text, end=end, flush=True)
    except OSError as error:
        # What is left in the buffer would fail again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise InputError(f"standard output: {error.strerror}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
