"""A command line from a dataclass: each field is an option, and ``--config`` a file of them.

Nothing here imports torch.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.harness.arguments import OneLineParser, nonempty
from benchmarks.harness.errors import InputError

T = TypeVar("T")
CONFIG = "--config"
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
