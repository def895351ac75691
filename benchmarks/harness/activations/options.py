"""The options of the learned activations that experiments share, and what they say.

Nothing here imports torch.
"""

import argparse
from collections.abc import Sequence
from typing import Any

from benchmarks.harness.activations.setting import GREENS, INITS, Optimization, Units
from benchmarks.harness.arguments import (
    LARGEST_WIDTH,
    add_device_option,
    add_result_options,
    integer,
    number,
)


def add_seeds(group: Any, default: Sequence[int]) -> None:
    """``--seeds``."""
    group.add_argument(
        "--seeds",
        "--seed",
        nargs="+",
        type=integer(0),
        default=list(default),
        metavar="N",
        help=f"({' '.join(map(str, default))})",
    )


def add_iterations(group: Any, default: int) -> None:
    """``--max-iterations``."""
    group.add_argument(
        "--max-iterations",
        "--iterations",
        type=integer(1),
        default=default,
        metavar="N",
        help=f"of each trial ({default:,})",
    )


def add_forget_bias(group: Any) -> None:
    """``--forget-bias``."""
    group.add_argument(
        "--forget-bias",
        type=number(),
        default=1.0,
        metavar="X",
        help="added to the bias of the LSTM's forget gates; 1 in TensorFlow's cell, which the "
        "paper used (1)",
    )


def add_centers(group: Any, default: Units) -> None:
    """``--centers``, one number."""
    group.add_argument(
        "--centers",
        type=integer(1, LARGEST_WIDTH),
        default=default.centers,
        metavar="N",
        help=f"of each learned activation ({default.centers})",
    )


def add_unit_options(group: Any, default: Units, greens: Sequence[str] = GREENS) -> None:
    """What a learned activation is at the start, but its centres."""
    group.add_argument(
        "--green",
        choices=greens,
        default=default.green,
        help=f"function around a centre ({default.green})",
    )
    group.add_argument(
        "--init",
        choices=INITS,
        default=default.init,
        help="what a learned activation is at the start: small random coefficients, or near a "
        f"function ({default.init})",
    )
    group.add_argument(
        "--init-range",
        nargs=2,
        type=number(),
        default=list(default.init_range),
        metavar=("LOW", "HIGH"),
        help="of the centres at the start ({:g} {:g})".format(*default.init_range),
    )
    _add_switch(group, "affine", default.affine, "add a learned affine part to each activation")


def add_normalize(group: Any, default: Units) -> None:
    """``--normalize``."""
    _add_switch(group, "normalize", default.normalize, "normalise what enters an activation")


def _add_switch(group: Any, name: str, default: bool, text: str) -> None:
    group.add_argument(
        f"--{name}",
        action=argparse.BooleanOptionalAction,
        default=default,
        help=f"{text} ({'yes' if default else 'no'})",
    )


def add_learning_rate(group: Any, default: Optimization) -> None:
    """``--learning-rate``."""
    group.add_argument(
        "--learning-rate",
        "--lr",
        type=number(above=0),
        default=default.learning_rate,
        metavar="X",
        help=f"of Adam ({default.learning_rate:g})",
    )


def add_optimization_options(group: Any, default: Optimization) -> None:
    """How a network that reads fresh sequences is trained."""
    add_learning_rate(group, default)
    group.add_argument(
        "--batch-size",
        type=integer(2, 1_000_000),
        default=default.batch_size,
        metavar="N",
        help=f"fresh sequences an iteration ({default.batch_size})",
    )
    group.add_argument(
        "--l1",
        type=number(least=0),
        default=default.l1,
        metavar="X",
        help="weight of the sum of absolute coefficients (0)",
    )
    group.add_argument(
        "--clip",
        type=number(least=0),
        default=default.clip,
        metavar="X",
        help="largest norm of the gradient (0: any)",
    )
    group.add_argument(
        "--statistics",
        choices=("batch", "running"),
        default="batch",
        help="by which a normalised test set is read: its own, step by step, or the running ones "
        "(batch)",
    )


def add_running_options(parser: argparse.ArgumentParser, name: str) -> None:
    """How many processes and threads, on which device, into which folder."""
    running = parser.add_argument_group("running")
    running.add_argument(
        "--processes",
        type=integer(1, 1024),
        default=1,
        metavar="N",
        help="trials at a time, each in a process of its own (1)",
    )
    running.add_argument(
        "--threads",
        type=integer(1, 1024),
        default=1,
        metavar="N",
        help="of the CPU, of each process; more hardly help at these sizes (1)",
    )
    add_device_option(running)
    results = parser.add_argument_group("results")
    add_result_options(results, f"runs/activations-{name}")
    results.add_argument(
        "--report",
        action="store_true",
        help="train nothing: the table and the pictures of what lies finished in --out",
    )


def distinct(values: Sequence[Any] | None) -> tuple[Any, ...]:
    """Values without repetitions; none of ``None``."""
    return tuple(dict.fromkeys(values or ()))


def chosen_units(options: argparse.Namespace, centers: int) -> Units:
    """The learned activations that options ask for."""
    low, high = options.init_range
    return Units(
        centers, options.green, options.init, (low, high), options.affine, options.normalize
    )


def chosen_optimization(options: argparse.Namespace) -> Optimization:
    """The training that options ask for."""
    return Optimization(
        options.learning_rate,
        options.batch_size,
        options.l1,
        options.clip,
        options.statistics == "batch",
    )
