"""Where the numbers of a section come from: what each results folder says of its making."""

import datetime
import shlex
from collections.abc import Mapping
from typing import Any

from benchmarks.harness.experiment import FREE_SETTINGS
from benchmarks.harness.molecules.gathering.folders import ResultsFolder
from benchmarks.harness.molecules.gathering.settings import (
    NOT_RECORDED,
    flat,
    training_settings,
    without,
    words,
)
from benchmarks.harness.molecules.task import MoleculeTask
from benchmarks.harness.table import one_line

# Those that have words of their own below.
SPOKEN = ("data", MoleculeTask.items, "training", "models", "parts", "folds")


def described(folder: ResultsFolder) -> list[tuple[str, str]]:
    """Names and values of all that a results folder says of its making.

    Args:
        folder: With a configuration; what it holds beyond the known is given as it stands.
    """
    configuration = folder.configuration
    identity = configuration[MoleculeTask.items]
    written = datetime.datetime.fromtimestamp(folder.written, datetime.UTC)
    data = without(configuration["data"], ("root",))
    chosen = {name: value for name, value in data.items() if not (value is None or value is False)}
    return [
        ("written", f"{written:%Y-%m-%d %H:%M} UTC"),
        ("molecules", f"{_count(identity)}{_parts(configuration)}"),
        ("identity", _listed(dict(flat(without(identity, ("number",)))))),
        ("data", _listed(dict(flat(chosen)))),
        *((name.replace("_", " "), _text(name, value)) for name, value in _others(configuration)),
        ("device", words(configuration["training"].get("device"))),
        ("training", _listed(training_settings(folder))),
        ("models", "; ".join(_model(model) for model in configuration["models"])),
    ]


def _others(configuration: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(without(configuration, (*SPOKEN, *FREE_SETTINGS)).items())


def _count(identity: Mapping[str, Any]) -> str:
    number = identity.get("number")
    return f"{number:,}" if isinstance(number, int) else "number not recorded"


def _parts(configuration: Mapping[str, Any]) -> str:
    parts = configuration.get("parts")
    sizes = parts.items() if isinstance(parts, dict) else ()
    known = [f"{size:,} {part}" for part, size in sizes if isinstance(size, int)]
    return f" ({', '.join(known)})" if known else ""


def _text(name: str, value: Any) -> str:
    if name == "arguments" and isinstance(value, list):
        return one_line(shlex.join(map(str, value)))
    if value is None:
        return NOT_RECORDED
    return _listed(dict(flat(value))) if isinstance(value, dict) else words(value)


def _model(model: Mapping[str, Any]) -> str:
    sizes = _listed(dict(flat(without(model, ("name",)))))
    return f"{words(model['name'])} ({sizes})" if sizes else words(model["name"])


def _listed(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())
