"""Reading the checkpoints that the command line names."""

import inspect
import pickle
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch

from benchmarks.harness.errors import InputError

if TYPE_CHECKING:
    from benchmarks.harness.learner import Learner

T = TypeVar("T", bound="Learner")
# What torch.load raises on other kinds of files, which it may read as pickle instructions.
DAMAGE = (
    *(RuntimeError, pickle.UnpicklingError, struct.error, EOFError, ValueError),
    *(AttributeError, LookupError, TypeError, ArithmeticError),
)
UNREADABLE = (*DAMAGE, OSError)


@contextmanager
def naming_damage(path: Path, remove: Path | None = None) -> Iterator[None]:
    """Turns the errors of reading an earlier run's file into one that names the file, and what to
    remove: `remove`, or else the file itself.
    """
    try:
        yield
    except PermissionError:
        raise
    except UNREADABLE as error:
        what = "damaged" if path.exists() else "missing"
        hint = f"remove {remove or path}, and --resume does this run again"
        raise InputError(f"{path} is {what}; {hint}") from error


def checkpoint_of(run: str | Path) -> Path:
    """The checkpoint of a run's folder or of a results folder with one run, or the file itself."""
    path = Path(run)
    if not path.is_dir():
        return path
    found = list(path.glob("best.ckpt")) or sorted(path.glob("runs/*/best.ckpt"))
    if not found:
        raise InputError(f"--checkpoint {run} has neither best.ckpt nor runs/*/best.ckpt")
    if len(found) > 1:
        advice = f"name one, such as {found[0].parent}"
        raise InputError(f"--checkpoint {run} has {len(found)} runs: {advice}")
    return found[0]


def load_learner(run: str | Path, kind: "type[T]") -> "T":
    """The learner of a run's checkpoint, in evaluation mode."""
    path = checkpoint_of(run)
    if not path.is_file():
        raise InputError(f"--checkpoint {path}: no such file")
    try:
        content = dict(torch.load(path, map_location="cpu", weights_only=True))
        found = dict(content["hyper_parameters"])
        name = dict(found["model"])["name"]
    except UNREADABLE as error:
        what = "is not a checkpoint of this module's networks (svm is none), or damaged"
        raise InputError(f"--checkpoint {path} {what}") from error
    kept = set(inspect.signature(kind).parameters).difference(kind.UNSAVED)
    if not kept.difference(kind.ADDED) <= set(found) <= kept:
        raise InputError(f"--checkpoint {path} is a checkpoint of another network")
    try:
        learner = kind(**found)
        learner.load_state_dict(content["state_dict"])
    except DAMAGE as error:
        raise InputError(f"--checkpoint {path} does not fit this version's {name}") from error
    return learner.eval()


def load_finished(path: Path, kind: "type[T]") -> "T":
    """The learner of a finished run; if its checkpoint is lost, the run can be repeated."""
    with naming_damage(path, path.parent):
        return load_learner(path, kind)
