"""What the command lines have in common: options, errors in one line, exit statuses.

Nothing here imports torch: ``--help`` and a misspelt option answer at once.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from benchmarks.harness.errors import InputError
from benchmarks.harness.errors import exit_status as exit_status
from benchmarks.harness.errors import progress as progress
from benchmarks.harness.processes import is_first

# The keys of learner.SCHEDULES, repeated.
SCHEDULES = ("cosine", "exponential", "plateau", "none")
PRECISIONS = ("auto", "32-true", "16-mixed", "bf16-mixed")
FACTOR = {"exponential": 0.9, "plateau": 0.5}
LARGEST = 2**31 - 1
LARGEST_WIDTH = 2**16
MOST_LAYERS = 1000


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, without the usage.

    Of several processes the first one prints. What it parses has all the words as ``arguments``.

    Args:
        program (str): The name that its errors begin with.
    """

    def __init__(self, program: str, **options: Any) -> None:
        super().__init__(**options)
        self.program = program

    def error(self, message: str) -> NoReturn:
        """Exits with status 2 after one line."""
        self.exit(2, f"{self.program}: error: {message}\n")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The options, and the words that they were given in."""
        options = super().parse_args(args, namespace)
        options.arguments = list(sys.argv[1:] if args is None else args)
        return options

    def _print_message(self, message: str, file: Any = None) -> None:
        if is_first():
            super()._print_message(message, file)


def add_result_options(group: Any, folder: str) -> None:
    """``--out``, by default `folder`, ``--resume``, ``--overwrite`` and ``--quiet``."""
    group.add_argument("--out", type=nonempty, metavar="DIR", help=f"results folder ({folder})")
    group.add_argument(
        "--resume",
        action="store_true",
        help="continue what was interrupted in --out; the result is that of an uninterrupted run",
    )
    group.add_argument(
        "--overwrite", action="store_true", help="replace the results that lie in --out"
    )
    group.add_argument("--quiet", action="store_true", help="print the final table only")


def add_training_options(
    group: Any,
    epochs: Mapping[str, int],
    batch_size: Mapping[str, int],
    learning_rate: Mapping[str, float],
    smallest_batch: int = 1,
    schedule: Mapping[str, str] | None = None,
) -> None:
    """Seeds, epochs, batches, the optimiser's settings and the device.

    Args:
        group: Of a parser.
        epochs: The default for each data set, as are the next two.
        batch_size: Texts or molecules a batch.
        learning_rate: The highest learning rate.
        smallest_batch (int): The smallest batch that is accepted.
        schedule: The default for each data set, to be filled in; ``None``: ``cosine`` for all.
    """
    group.add_argument(
        "--seeds", "--seed", nargs="+", type=integer(0), default=[0], metavar="N", help="(0)"
    )
    group.add_argument(
        "--epochs", type=integer(1), metavar="N", help=f"at most ({by_dataset(epochs)})"
    )
    group.add_argument(
        "--batch-size",
        type=integer(smallest_batch),
        metavar="N",
        help=f"({by_dataset(batch_size)})",
    )
    _add_optimizer_options(group, learning_rate, schedule)
    group.add_argument(
        "--patience",
        type=integer(1),
        metavar="N",
        help="stop after N epochs without a better validation error (a third of --epochs, "
        "at least 10)",
    )
    add_device_option(group)
    group.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="auto",
        help="auto: bf16-mixed on a GPU that has it, otherwise 32-true",
    )


def _add_optimizer_options(
    group: Any, learning_rate: Mapping[str, float], schedule: Mapping[str, str] | None
) -> None:
    group.add_argument(
        "--lr",
        type=number(above=0),
        metavar="X",
        help=f"learning rate ({by_dataset(learning_rate)})",
    )
    group.add_argument(
        "--schedule",
        choices=SCHEDULES,
        default=None if schedule else "cosine",
        help="of the learning rate: short warm-up and cosine over --epochs; times --lr-factor "
        "every epoch; times --lr-factor after 5 epochs without progress; constant "
        f"({by_dataset(schedule) if schedule else 'cosine'})",
    )
    group.add_argument(
        "--lr-factor",
        type=number(above=0, below=1),
        metavar="X",
        help="(0.9 for exponential, 0.5 for plateau)",
    )
    group.add_argument(
        "--weight-decay", type=number(least=0), default=0.0, metavar="X", help="L2 penalty (0)"
    )
    group.add_argument(
        "--clip",
        type=number(least=0),
        default=5.0,
        metavar="X",
        help="largest norm of the gradient (5; 0: any)",
    )


def add_device_option(group: Any) -> None:
    """``--device``."""
    group.add_argument(
        "--device", default="auto", metavar="NAME", help="auto, cpu, cuda, cuda:N or mps (auto)"
    )


def check_training_options(options: argparse.Namespace) -> None:
    """Refuses options that contradict each other or would have no effect."""
    if options.lr_factor and options.schedule not in FACTOR:
        raise InputError(
            f"--lr-factor goes with --schedule {' or '.join(FACTOR)}, not {options.schedule}"
        )
    for one, other in (("resume", "overwrite"), ("hidden", "parameters")):
        if getattr(options, one, None) and getattr(options, other, None):
            raise InputError(f"--{one} and --{other} exclude each other")


def training_config(
    options: argparse.Namespace,
    epochs: Mapping[str, int],
    batch_size: Mapping[str, int],
    learning_rate: Mapping[str, float],
) -> Any:
    """The :class:`TrainingConfig` of the options; defaults as in :func:`add_training_options`."""
    from benchmarks.harness.learner import OptimizerConfig
    from benchmarks.harness.training import TrainingConfig

    most = options.epochs or epochs[options.dataset]
    return TrainingConfig(
        epochs=most,
        batch_size=options.batch_size or batch_size[options.dataset],
        patience=options.patience or max(10, most // 3),
        clip=options.clip,
        optimizer=OptimizerConfig(
            learning_rate=options.lr or learning_rate[options.dataset],
            schedule=options.schedule,
            factor=options.lr_factor or FACTOR.get(options.schedule, 1.0),
            weight_decay=options.weight_decay,
        ),
        device=options.device,
        precision=options.precision,
        show=shown(options),
    )


def check_own_files(
    options: argparse.Namespace, names: Iterable[str], folders: bool = False
) -> None:
    """Refuses files of one's own in ``--data`` that cannot be read.

    Args:
        options: With ``data`` and ``root``.
        names: The data sets that have names.
        folders (bool): Whether folders are taken, too.

    Raises:
        InputError: If they are more than two or not there, or ``--root`` is given as well.
    """
    known = ", ".join(names)
    if options.root:
        raise InputError(f"--root goes with {known}, not a file of your own")
    if len(options.data) > 2:
        raise InputError(
            f"--data takes a file, or a training and a test file, not {len(options.data)}"
        )
    for name in options.data:
        if not (Path(name).is_file() or (folders and Path(name).is_dir())):
            raise InputError(f"--data {name}: no such file, nor one of {known}")


def shown(options: Any) -> str:
    """As :meth:`Results.show`, of any options with ``quiet``."""
    return progress(options.quiet)


def by_dataset(values: Mapping[str, float | str]) -> str:
    """The defaults of an option in words: one, or one for each data set."""
    if len(set(values.values())) == 1:
        return str(next(iter(values.values())))
    return ", ".join(f"{value} for {dataset}" for dataset, value in values.items())


def nonempty(text: str) -> str:
    """The type of an argument that must not be empty."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def integer(least: int, most: int = LARGEST) -> Callable[[str], int]:
    """The type of an argument that is an integer within bounds."""

    def convert(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(
                f"must be an integer of at least {least} and at most {most}, got {text}"
            )
        return int(text)

    return convert


def number(
    above: float = -math.inf, below: float = math.inf, least: float = -math.inf
) -> Callable[[str], float]:
    """The type of an argument that is a number within bounds."""

    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (above < value < below and value >= least):
            bounds = [f"above {above:g}"] * (above > -math.inf) + [f"below {below:g}"] * (
                below < math.inf
            )
            bounds += [f"at least {least:g}"] * (least > -math.inf)
            kind = " ".join(["number", " and ".join(bounds)]) if bounds else "finite number"
            raise argparse.ArgumentTypeError(f"must be a {kind}, got {text}")
        return value

    return convert
