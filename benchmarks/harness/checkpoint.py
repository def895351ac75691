"""Reading the checkpoints that the command line names."""

import pickle
import struct
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from benchmarks.harness.errors import InputError

if TYPE_CHECKING:
    from benchmarks.harness.learner import Learner

T = TypeVar("T", bound="Learner")
# What torch.load raises on files of another kind, which it may read as a stack of instructions.
DAMAGE = (
    *(RuntimeError, pickle.UnpicklingError, struct.error, EOFError, ValueError),
    *(AttributeError, LookupError, TypeError, ArithmeticError),
)
UNREADABLE = (*DAMAGE, OSError)


def read_checkpoint(
    path: str | Path, arguments: Collection[set[str]], whole: Collection[set[str]] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The content of a checkpoint, and the arguments that build its model.

    Args:
        path: ``best.ckpt`` of a run.
        arguments: The sets of keys that ``hyper_parameters`` may have; ``model`` is a dictionary.
        whole: The sets of keys of checkpoints that are their own arguments.

    Raises:
        InputError: If there is no such file, or it is no such checkpoint.
    """
    if not Path(path).is_file():
        raise InputError(f"--checkpoint {path}: no such file")
    what = "is not a checkpoint of this module"
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except UNREADABLE as error:
        raise InputError(f"--checkpoint {path} {what}, or damaged") from error
    if isinstance(content, dict):
        if set(content) in whole:
            return content, content
        found = content.get("hyper_parameters")
        if isinstance(found, dict) and set(found) not in arguments and found.get("model"):
            what = "is a checkpoint of another network"
        elif isinstance(found, dict) and set(found) in arguments:
            words = found.get("words", [])
            known = isinstance(words, list) and all(isinstance(word, str) for word in words)
            if known and isinstance(found["model"], dict):
                return content, found
    raise InputError(f"--checkpoint {path} {what}")


def load_learner(path: str | Path, kind: "type[T]", keys: set[str]) -> "T":
    """The learner of a checkpoint, in evaluation mode.

    Args:
        path: ``best.ckpt`` of a run.
        kind: Its class.
        keys: The names of its arguments.

    Raises:
        InputError: If there is no such file, it is damaged, of another command, or of another
            version.
    """
    checkpoint, arguments = read_checkpoint(path, [keys])
    try:
        learner = kind(**arguments)
        learner.load_state_dict(checkpoint["state_dict"])
    except DAMAGE as error:
        name = arguments["model"].get("name")
        raise InputError(f"--checkpoint {path} does not fit this version's {name}") from error
    return learner.eval()


def lost_checkpoint(path: Path) -> str:
    """What to say of a finished run whose checkpoint cannot be read."""
    what = "damaged" if path.is_file() else "missing"
    return f"{path} is {what}; remove {path.parent}, and --resume does this run again"
