"""The options of a command as a dataclass: flags, help, checks and files by one declaration.

A field gives the flag its name (``max_iterations``: ``--max-iterations``), its type and its
default. Its text under ``Args:`` is the help, and the class that declares it is its group.
``--config FILE`` reads values from YAML or from the ``configuration.json`` of a results folder,
``--preset NAME`` from a YAML file beside the command. Given flags override these values, wherever
they stand. Nothing here imports torch.
"""

import argparse
import inspect
import math
import operator
import os
import re
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import Field, asdict, dataclass, field, fields
from functools import partial
from itertools import islice
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NoReturn,
    get_args,
    get_origin,
    get_type_hints,
)

try:
    import jsonargparse
    import yaml
except ImportError:
    print("jsonargparse is not installed: pip install '.[bench]'", file=sys.stderr)
    raise SystemExit(2) from None

from benchmarks.harness.errors import InputError, exit_status

if TYPE_CHECKING:
    from benchmarks.harness.learner import TrainingConfig

# Messages of jsonargparse, and their replacements.
PLAIN_WORDS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r'Parser key "(\w+)"', lambda match: flag(match[1])),
    (r"Option '(\w+)'", lambda match: flag(match[1])),
    (r"Does not validate .*?(<class '\w+'>).*Given value: (.*)", r"Expected a \1. Got value: \2"),
    (r"Expected a <class '(\w+)'>\. Got value: (.*)", r"expected \1, got \2"),
    (r"Expected a typing.Literal\[(.*)\]\. Got value:", r"expected one of \1, got"),
    (r"expected int,", "expected an integer,"),
    (r"expected float,", "expected a finite number,"),
    (r"Unexpected config: .*", "--config: it is no file of options"),
    (r"Problems parsing config:", "--config:"),
    (r' in "<unicode string>",', " at"),
)
MODE = "options"  # the name of the loader below
LARGEST = 2**31 - 1
LARGEST_WIDTH = 2**16
MOST_LAYERS = 1000
FACTOR = 0.9  # on the learning rate, every epoch
BOUNDS: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    "least": ("of at least", operator.ge),
    "most": ("of at most", operator.le),
    "above": ("above", operator.gt),
    "below": ("below", operator.lt),
}


def setting(
    default: Any,
    *alias: str,
    free: bool = False,
    positional: bool = False,
    repeats: bool = False,
    **bounds: float,
) -> Any:
    """A field of options; it takes several values if the default is a tuple.

    The bounds ``least``, ``most``, ``above``, ``below`` hold for each value. A continuation may
    change a `free` field. A `positional` field has no flag, and is required if it takes one value.
    Repeated values count once unless the field `repeats`.
    """
    notes = {"alias": alias, "free": free, "positional": positional, "bounds": bounds}
    notes["repeats"] = repeats
    return field(default=default, metadata=notes)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a command; a wrong value is an :class:`InputError` that names its flag."""

    EXCLUSIVE: ClassVar[tuple[tuple[str, ...], ...]] = ()  # at most one of each group; inherited
    REQUIRED: ClassVar[tuple[str, ...]] = ()  # must be given
    ONE_OF: ClassVar[tuple[str, ...]] = ()  # exactly one of them must be given

    def __post_init__(self) -> None:
        for each in fields(self):
            _check_value(each, getattr(self, each.name))
        for one in type(self).mro():
            for names in (*vars(one).get("EXCLUSIVE", ()), vars(one).get("ONE_OF", ())):
                given = [flag(name) for name in names if getattr(self, name)]
                if len(given) > 1:
                    raise InputError(f"{' and '.join(given)} exclude each other")
        missing = [flag(name) for name in self.REQUIRED if not getattr(self, name)]
        if missing:
            raise InputError(f"{' and '.join(missing)} must be given")
        if self.ONE_OF and not any(getattr(self, name) for name in self.ONE_OF):
            raise InputError(f"{' or '.join(map(flag, self.ONE_OF))} must be given")
        self.check()

    def check(self) -> None:
        """Rejects invalid combinations of values."""

    def values(self) -> dict[str, Any]:
        """The options that determine a result, as read from JSON: all but those of `Results`."""
        runs = {one.name for one in fields(Results)}
        values = {name: value for name, value in asdict(self).items() if name not in runs}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}

    def fixed(self) -> dict[str, Any]:
        """The :meth:`values` that a continuation must share with its folder."""
        free = {one.name for one in fields(self) if one.metadata.get("free")}
        return {name: value for name, value in self.values().items() if name not in free}


@dataclass(frozen=True, kw_only=True)
class Results(Options):
    """The results folder.

    Args:
        out: folder for the results (one below runs/)
        resume: continue an interrupted command in --out; results are those of an uninterrupted one
        overwrite: replace the results in --out
        report: only print the tables and write the pictures of what is finished in --out
        quiet: print only the final tables
    """

    EXCLUSIVE: ClassVar[tuple[tuple[str, ...], ...]] = (("resume", "overwrite", "report"),)

    out: str | None = setting(None, free=True)
    resume: bool = setting(False, free=True)
    overwrite: bool = setting(False, free=True)
    report: bool = setting(False, free=True)
    quiet: bool = setting(False, free=True)

    def show(self) -> str:
        """How progress is shown: ``'bar'``, ``'lines'`` or ``'nothing'``."""
        if self.quiet:
            return "nothing"
        terminal = sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).lines > 0
        return "bar" if terminal else "lines"


@dataclass(frozen=True, kw_only=True)
class Device(Options):
    """Where to compute.

    Args:
        device: auto (cuda if it is available, else cpu), cpu, cuda, cuda:N or mps
    """

    device: str = setting("auto", free=True)


@dataclass(frozen=True, kw_only=True)
class Runs(Device, Results):
    """Training.

    Args:
        seeds: random seeds of weights, data order and dropout; every network is trained with each
        epochs: largest number of epochs
        batch_size: items per batch
        lr: peak learning rate of Adam
        clip: largest norm of the gradient; larger gradients are scaled down to it; 0: no limit
        patience: stop after N epochs without a lower validation error (a third of --epochs, at
            least 10)
        precision: numerical precision; auto is bf16-mixed on a GPU that has it, otherwise 32-true
        logger: also log every epoch in the run's folder, as metrics.csv or for TensorBoard
    """

    seeds: tuple[int, ...] = setting((0,), "seed", least=0, free=True)
    epochs: int | None = setting(20, least=1)
    batch_size: int | None = setting(50, least=1)
    lr: float | None = setting(0.001, above=0)
    clip: float | None = setting(5.0, least=0)
    patience: int | None = setting(None, least=1)
    precision: Literal["auto", "32-true", "16-mixed", "bf16-mixed"] = setting("auto")
    logger: Literal["none", "csv", "tensorboard"] = setting("none", free=True)


@dataclass(frozen=True, kw_only=True)
class Training(Runs):
    """Learning rate and penalty.

    Args:
        schedule: course of the learning rate: short warm-up and cosine over --epochs (cosine),
            times --lr-factor after every epoch (exponential), or constant (none)
        lr_factor: factor on the learning rate after every epoch, with --schedule exponential (0.9)
        weight_decay: weight of Adam's L2 penalty
    """

    schedule: Literal["cosine", "exponential", "none"] | None = setting("cosine")
    lr_factor: float | None = setting(None, above=0, below=1)
    weight_decay: float = setting(0.0, least=0)

    def check(self) -> None:
        super().check()
        if self.lr_factor and self.schedule != "exponential":
            hint = "(null takes that of a file back)"
            raise InputError(f"--lr-factor goes with --schedule exponential {hint}")

    def training(self, **unless_given: Any) -> "TrainingConfig":
        from benchmarks.harness.learner import OptimizerConfig, TrainingConfig

        given = {name: getattr(self, name) for name in ("epochs", "batch_size", "lr", "schedule")}
        options = given | unless_given | {k: v for k, v in given.items() if v is not None}
        for name, value in options.items():
            if value is None:
                raise InputError(f"{flag(name)} null: expected a value")
        schedule, epochs = options["schedule"], options["epochs"]
        factor = self.lr_factor or (FACTOR if schedule == "exponential" else 1.0)
        return TrainingConfig(
            epochs=epochs,
            batch_size=options["batch_size"],
            patience=self.patience or max(10, epochs // 3),
            clip=self.clip or 0.0,
            optimizer=OptimizerConfig(options["lr"], schedule, factor, self.weight_decay),
            device=self.device,
            precision=self.precision,
            show=self.show(),
            logger=self.logger,
        )


@dataclass(frozen=True, kw_only=True)
class TextColumns(Options):
    """Texts of your own.

    Args:
        text_column: columns of your file with the text; several are joined (text)
        encoding: character encoding of your CSV or TSV file
    """

    text_column: tuple[str, ...] = setting(())
    encoding: str = setting("utf-8")


@dataclass(frozen=True, kw_only=True)
class Application(Options):
    """Trained run, input and output.

    Args:
        checkpoint: trained run: its best.ckpt, its folder, or a results folder with a single run
        data: input table with a header: CSV, TSV or Parquet
        out: folder to write
        batch_size: number of texts that are processed at once
        overwrite: replace output that exists
    """

    REQUIRED: ClassVar[tuple[str, ...]] = ("checkpoint", "data", "out")

    checkpoint: str | None = setting(None)
    data: str | None = setting(None)
    out: str | None = setting(None)
    batch_size: int = setting(256, least=1)
    overwrite: bool = setting(False, free=True)

    def check(self) -> None:
        super().check()
        for name in ("data", "among"):
            with suppress(OSError):  # one of the files does not exist
                if os.path.samefile(str(self.out), str(getattr(self, name, ""))):
                    raise InputError(f"--out is the file of {flag(name)}")


@dataclass(frozen=True)
class Command:
    """The command of a program, or of one of the words that may follow the program's name."""

    options: type[Options]  # its options
    # Does the work; returns the exit status, ``None``: 0. Its docstring says what it does.
    carry_out: Callable[[Any], int | None]
    details: str = ""  # the text after the options in the help
    title: str = field(default="", kw_only=True)  # replaces the first line of its docstring

    @property
    def description(self) -> str:
        """What the command does, in one line."""
        return self.title or (inspect.getdoc(self.carry_out) or "").partition("\n")[0]


def run_commands(
    program: str, commands: Mapping[str, Command], words: Sequence[str] | None = None
) -> int:
    """Runs a command line, whose first word may choose the command; returns the exit status.

    The command under the empty word runs if no such word is given.
    """
    given = list(sys.argv[1:] if words is None else words)
    word = given.pop(0) if given and given[0] in commands else ""
    if word in commands:
        command, name = commands[word], f"{program} {word}".rstrip()
        return exit_status(name, lambda: command.carry_out(parse(name, command, given)) or 0)
    if given[:1] in (["-h"], ["--help"]):
        width = max(map(len, commands))
        lines = [f"  {name:{width}}  {one.description}" for name, one in commands.items()]
        print(f"usage: python -m {program} {{{','.join(commands)}}} ...\n", *lines, sep="\n")
        return 0
    got = f", got {given[0]}" if given else ""
    print(f"{program}: error: expected one of {', '.join(commands)}{got}", file=sys.stderr)
    return 2


def parse(program: str, command: Command, words: Sequence[str]) -> Any:
    """The options of a command line's words."""
    types_ = get_type_hints(command.options)
    several = [one for one in fields(command.options) if isinstance(one.default, tuple)]
    lists = [name for one in several for name in (one.name, *one.metadata["alias"])]
    choices = [name for name, hint in types_.items() if "yes" in get_args(hint)]
    load = partial(_load, lists=lists, choices=choices)
    jsonargparse.set_loader(MODE, load, exceptions=(yaml.YAMLError,))
    made, given = parser(program, command), _files_first(command.options, words)
    found = vars(made.parse_args(given))
    for one in fields(command.options):
        if one.metadata["positional"] and not found[one.name]:  # jsonargparse ignores them in files
            files = [load(Path(path).read_text("utf-8")) for path in found["config"] or ()]
            lists = [file[one.name] for file in files if isinstance(file.get(one.name), list)]
            found = vars(made.parse_args([*lists[-1], *given])) if lists else found
    values = {}
    for one in fields(command.options):
        value = found[one.name] or one.default if one.metadata["positional"] else found[one.name]
        if isinstance(value, list):
            once = get_args(types_[one.name])[-1] is ... and not one.metadata["repeats"]
            value = tuple(dict.fromkeys(value) if once else value)
        values[one.name] = value
    return command.options(**values)


def parser(program: str, command: Command) -> jsonargparse.ArgumentParser:
    """The parser of a command's options."""
    made = _Parser(
        prog=f"python -m {program}",
        description=command.description,
        epilog=command.details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parser_mode=MODE,
        allow_abbrev=False,
    )
    hints, classes = get_type_hints(command.options), command.options.mro()
    texts = {name: text for one in reversed(classes) for name, text in docs(one).items()}
    groups: dict[type, Any] = {}

    def owner(one: "Field[Any]") -> type:
        return next(c for c in reversed(classes) if one.name in inspect.get_annotations(c))

    for one in sorted(fields(command.options), key=lambda one: classes.index(owner(one))):
        if owner(one) not in groups:
            title = (inspect.getdoc(owner(one)) or "").partition("\n")[0].rstrip(".").lower()
            groups[owner(one)] = made.add_argument_group(title)
        _add(groups[owner(one)], one, hints[one.name], texts.get(one.name, ""))
    files = made.add_argument_group("values from files")
    files.add_argument(
        "--config",
        action=jsonargparse.ActionConfigFile,
        metavar="FILE",
        help="options in YAML, or the configuration.json of a results folder",
    )
    if found := presets(command.options):
        files.add_argument("--preset", metavar="NAME", help=f"one of {', '.join(found)}")
    return made


def docs(options: type) -> dict[str, str]:
    """The description of each field of a class, from its docstring's ``Args:``."""
    text = (inspect.getdoc(options) or "").partition("Args:\n")[2]
    entries = re.split(r"^(\w+)(?: \([^)]*\))?:", textwrap.dedent(text), flags=re.MULTILINE)
    return {k: " ".join(v.split()) for k, v in zip(entries[1::2], entries[2::2], strict=True)}


def presets(options: type[Options]) -> dict[str, Path]:
    """The YAML files beside a command, ``presets/CLASS/NAME.yaml`` in lower case, by name."""
    folder = Path(inspect.getfile(options)).parent / "presets" / options.__name__.lower()
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def own_files(
    data: Sequence[str], root: str | None, names: Iterable[str], folders: bool = False
) -> None:
    """Rejects files of the user's own in ``--data`` that cannot be read."""
    known = ", ".join(names)
    if root:
        raise InputError(f"--root goes with {known}, not a file of your own")
    if len(data) > 2:
        raise InputError(f"--data takes a file, or a training and a test file, not {len(data)}")
    for name in data:
        if folders and len(data) > 1 and Path(name).is_dir():
            raise InputError(f"--data {name}: a folder has both parts and stands alone")
        if not (Path(name).is_file() or (folders and Path(name).is_dir())):
            raise InputError(f"--data {name}: no such file, nor one of {known}")


def flag(name: str) -> str:
    """The flag of a field."""
    return f"--{name.replace('_', '-')}"


def _files_first(options: type[Options], words: Sequence[str]) -> list[str]:
    """The words, preceded by the files of ``--preset`` and then those of ``--config``."""
    found, given = presets(options), iter(words)
    chosen: list[str] = []
    files: list[str] = []
    others: list[str] = []
    for word in given:
        name, _, value = word.partition("=")
        if name == "--preset" and found:
            value = value or next(given, "")
            if value not in found:
                raise InputError(f"--preset must be one of {', '.join(found)}, got {value!r}")
            chosen += ["--config", str(found[value])]
        elif name == "--config":
            files += [word] if value else [word, *islice(given, 1)]
        else:
            others.append(word)
    return [*chosen, *files, *others]


def _add(group: Any, one: "Field[Any]", hint: Any, text: str) -> None:
    default: Any = one.default
    positional = one.metadata["positional"]
    names = [one.name] if positional else [flag(x) for x in (one.name, *one.metadata["alias"])]
    if hint is bool and one.metadata["free"]:
        group.add_argument(*names, action="store_true", help=text)
        return
    if hint is bool:
        switch = jsonargparse.ActionYesNo(no_prefix="no-")
        text = f"{text} ({'yes' if default else 'no'})"
        group.add_argument(*names, action=switch, default=default, help=text)
        return
    several = get_origin(hint) is tuple
    kind, *rest = get_args(hint) if several else (hint,)
    kinds = [each for each in get_args(kind) or (kind,) if each is not types.NoneType]
    # Plain str, because with str | None the word null would become None.
    extra: dict[str, Any] = {"type": str if kind == str | None else kind}
    extra["metavar"] = {int: "N", float: "X"}.get(kinds[0], "WORD")
    if several:
        extra["nargs"] = ("*" if positional else "+") if rest == [...] else 1 + len(rest)
    choices = [get_args(each) for each in (kind, *kinds) if get_origin(each) is Literal]
    if choices:
        text = f"{text}: {', '.join(choices[0])}"
        extra["metavar"] = "NAME"
    words = default if several else (default,)
    shown = " ".join(str(word) for word in words if word is not None)
    help_ = f"{text} ({shown})" if shown else text
    if not positional:  # positional arguments have no default in jsonargparse
        extra["default"] = list(default) if several else default
    group.add_argument(*names, help=help_.replace("%", "%%"), **extra)


def _check_value(one: "Field[Any]", value: Any) -> None:
    bounds: dict[str, float] = dict(one.metadata.get("bounds", {}))
    for each in value if isinstance(value, tuple) else (value,):
        if isinstance(each, str) and not each.strip():
            raise InputError(f"{flag(one.name)} must not be empty")
        if isinstance(each, bool) or not isinstance(each, int | float):
            continue
        if isinstance(each, int):
            bounds.setdefault("most", LARGEST)
        kept = all(BOUNDS[name][1](each, bound) for name, bound in bounds.items())
        if not kept or not math.isfinite(each):
            kind = "an integer" if isinstance(each, int) else "a finite number"
            words = " and ".join(f"{BOUNDS[name][0]} {bound:g}" for name, bound in bounds.items())
            raise InputError(f"{flag(one.name)} must be {kind} {words}".rstrip() + f", got {each}")


def _load(text: str, lists: Sequence[str], choices: Sequence[str]) -> Any:
    """Reads YAML; from a results folder's configuration, the options in it.

    A single value may stand for a list, and yes and no stay words if they are choices.
    """
    content = jsonargparse.get_loader("yaml")(text)
    if isinstance(content, dict) and isinstance(content.get("options"), dict):
        content = content["options"]
    if isinstance(content, dict):
        single = [k for k in lists if isinstance(content.get(k), str | int | float)]
        content |= {k: [content[k]] for k in single}
        words = [k for k in choices if isinstance(content.get(k), bool)]
        content |= {k: "yes" if content[k] else "no" for k in words}
    return content


class _Parser(jsonargparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        text = " ".join(message.split())
        for pattern, words in PLAIN_WORDS:
            text = re.sub(pattern, words, text)
        self.exit(2, f"{self.prog.removeprefix('python -m ')}: error: {text}\n")
