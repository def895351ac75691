"""A command line from a dataclass: each field is an option, and ``--config`` a file of them.

Nothing here imports torch.
"""

import argparse
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.harness.arguments import OneLineParser, nonempty
from benchmarks.harness.commit import commit_of_code
from benchmarks.harness.errors import InputError, as_input_error
from benchmarks.harness.files import write_text
from benchmarks.harness.folder import holds_results
from benchmarks.harness.processes import processes

T = TypeVar("T")
CONFIG = "--config"
CONFIGURATION = "configuration.json"
PACKAGES = ("torch", "torch-geometric", "lightning", "rdkit", "numpy", "scikit-learn")
PLACES = ("out", "resume", "overwrite", "quiet")  # of one call, not of what it computes


def option(
    default: Any,
    purpose: str,
    group: str,
    kind: Callable[[str], Any] = nonempty,
    choices: Sequence[str] | None = None,
    several: bool = False,
) -> Any:
    """A field of a dataclass that is an option of the command line.

    Args:
        default: Its value where it is not given; False makes a switch.
        purpose: What ``--help`` says; it names the default itself.
        group: The heading under which it stands.
        kind: From a word to a value.
        choices: The words that it may be.
        several: Whether it takes one word or more.
    """
    notes = {
        "purpose": purpose, "group": group, "kind": kind, "choices": choices, "several": several
    }  # fmt: skip
    if several and default is not None:
        return field(default_factory=lambda: list(default), metadata=notes)
    return field(default=default, metadata=notes)


def parsed(
    kind: type[T], program: str, description: str, epilog: str, words: Sequence[str]
) -> tuple[T, list[str]]:
    """The dataclass that a command line says, and all of its words, those of ``--config`` first.

    Args:
        kind: The dataclass, whose fields are made by :func:`option`.
        program: Its name, such as ``benchmarks.molecules``.
        description: What it does.
        epilog: What ``--help`` ends with.
        words: Of the command line.

    Raises:
        InputError: If the file of ``--config`` cannot be read, or says what is no option.
        SystemExit: After ``--help``, or one line on standard error.
    """
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument(CONFIG)
    config, given = first.parse_known_args(list(words))
    configured = [] if config.config is None else _words(config.config, kind)
    parser = OneLineParser(
        program,
        prog=f"python -m {program}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(CONFIG, metavar="FILE", help="options from YAML, or configuration.json")
    groups: dict[str, Any] = {}
    for each in fields(kind):  # type: ignore[arg-type]
        name = each.metadata["group"]
        if name not in groups:
            groups[name] = parser.add_argument_group(name)
        _add(groups[name], each)
    found = vars(parser.parse_args([*configured, *given]))
    chosen = {each.name: found[each.name] for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**chosen), [*configured, *given]


def flag(name: str) -> str:
    """The option of a field."""
    return "--" + name.replace("_", "-")


def _add(group: Any, each: Field[Any]) -> None:
    notes = each.metadata
    default = each.default if each.default_factory is MISSING else each.default_factory()
    arguments: dict[str, Any] = {"help": notes["purpose"], "default": default}
    if default is False:
        arguments["action"] = "store_true"
    else:
        arguments |= {"type": notes["kind"], "choices": notes["choices"]}
        arguments["metavar"] = None if notes["choices"] else each.name.upper()
        if notes["several"]:
            arguments["nargs"] = "+"
    group.add_argument(flag(each.name), **arguments)


def _words(path: str, kind: Any) -> list[str]:
    """The options of a file as words."""
    import yaml

    try:
        found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise InputError(f"{CONFIG} {path}: {' '.join(str(error).split())}") from error
    if isinstance(found, dict) and isinstance(found.get("options"), dict):
        saved = found["options"]  # of configuration.json
        found = {name: value for name, value in saved.items() if name not in PLACES}
    if not isinstance(found, dict):
        raise InputError(f"{CONFIG} {path}: expected names of options and their values")
    known = {each.name for each in fields(kind)}
    words: list[str] = []
    for key, value in found.items():
        name = str(key).replace("-", "_")
        if name not in known:
            raise InputError(f"{CONFIG} {path}: {key!r} is no option")
        if value is None or value is False:
            continue
        values = [] if value is True else value if isinstance(value, list) else [value]
        words += [flag(name), *map(str, values)]
    return words


def open_folder(
    out: Path,
    program: str,
    options: Any,
    free: Sequence[str],
    digests: Mapping[str, str],
    words: Sequence[str],
    remove: Callable[[Path], None],
) -> None:
    """Makes a results folder, or finds the one that is to be continued; writes its configuration.

    Args:
        out: The folder.
        program: Whose results it holds.
        options: A dataclass; `resume` and `overwrite` say what to do with what is there.
        free: Its fields that a continuation may have others of.
        digests: Fingerprints of what is learned from, by name.
        words: Of the command line, to be written down.
        remove: Removes the results in a folder and nothing else.

    Raises:
        InputError: If it holds something else, results that are neither to be continued nor
            replaced, or such as were made otherwise.
    """
    import torch

    from pyg_kernels.ops import backend

    configuration = out / CONFIGURATION
    with as_input_error():
        found: dict[str, Any] = {}
        if holds_results(out, CONFIGURATION, options.resume, options.overwrite):
            found = _read_configuration(configuration, program)
            if options.resume:
                _check_same(out, found, options, free, digests)
            else:
                remove(out)
                found = {}
        out.mkdir(parents=True, exist_ok=True)
        content = {
            "program": program,
            "options": asdict(options),
            "digests": {**found.get("digests", {}), **digests},
            "versions": {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
            "commit": commit_of_code(),
            "backend": backend(),
            "processes": processes().number,
            "threads": torch.get_num_threads(),
            "arguments": list(words),
        }
        write_text(configuration, json.dumps(content, indent=1))


def _read_configuration(path: Path, program: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["program"] == program and isinstance(found["digests"], dict):
            return dict(found)
    except (ValueError, KeyError, TypeError):
        pass
    raise InputError(f"{path} is damaged or not of this program; remove its folder yourself")


def _check_same(
    out: Path,
    found: Mapping[str, Any],
    options: Any,
    free: Sequence[str],
    digests: Mapping[str, str],
) -> None:
    now = json.loads(json.dumps(asdict(options)))
    for name in now:
        before = found["options"].get(name)
        if name not in free and before != now[name]:
            raise InputError(
                f"--resume: {out} was made with {flag(name)} {before}, not {now[name]}"
            )
    for name, digest in digests.items():
        if found["digests"].get(name, digest) != digest:
            raise InputError(
                f"--resume: {out} was made from other molecules, targets or parts of {name}"
            )
