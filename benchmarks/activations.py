"""Learned activations at work: parity by one unit, a recurrent unit that charges, long memory.

``python -m benchmarks.activations --help``. Heavy imports happen after the arguments have been
read: ``--help`` and a misspelt option answer at once.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.harness.activations.options import (
    add_centers,
    add_forget_bias,
    add_iterations,
    add_learning_rate,
    add_normalize,
    add_optimization_options,
    add_running_options,
    add_seeds,
    add_unit_options,
    chosen_optimization,
    chosen_units,
    distinct,
)
from benchmarks.harness.activations.setting import (
    FUNCTIONS,
    GRIDS,
    KBRN,
    LSTM,
    RNN,
    Charging,
    Grid,
    LongTerm,
    Optimization,
    Units,
    Xor,
)
from benchmarks.harness.arguments import (
    LARGEST_WIDTH,
    OneLineParser,
    exit_status,
    integer,
    number,
    shown,
)
from benchmarks.harness.errors import InputError, naming_extras

if TYPE_CHECKING:
    from benchmarks.harness.activations.study import Study

PROGRAM = "benchmarks.activations"
LONGEST = 100_000
MOST_INPUTS = 16
LONG_TERM_UNITS = Units(100, init="tanh", affine=True, normalize=True)
XOR_UNITS = Units(0, green="abs")
XOR_TRAINING = Optimization(learning_rate=0.003)
XOR_L1 = 0.01
XOR_SEEDS = (0, 1, 2, 3, 4)
XOR_ITERATIONS = 3000
CHARGING_UNITS = Units(20, init="identity", init_range=(-2.0, 20.0), affine=True)
CHARGING_TRAINING = Optimization()
CHARGING_SEEDS = (0, 1, 2)
CHARGING_ITERATIONS = 10_000

XOR = """\
One unit, y = f(w z + b), reads all patterns of bits, -1 or 1, and learns their parity by least
squares: solved when the nearest of 0 and 1 is right for every pattern. All trials are trained for
the same number of iterations, so that the learned functions can be compared: how bent one is, is
the total variation of its slope, the sum of the changes of slope at its kinks. A larger w lowers it
too; the one over the data times the distance between the smallest and the largest input of f does
not depend on w's scale.
"""

CHARGING = """\
Sequences of 30 steps; 3 of them, drawn at random, hold an integer drawn from 0 to 9, the others 0.
h_t = x_t + [h_{t-1} > 1] (h_{t-1} - 1); the target at each step is whether h_t > 0. Every network
has one hidden unit and an affine read-out. Accuracy is that of all steps of 25,000 test sequences,
the same for every seed, at iterations spaced evenly in their logarithm, ten a decade. A trial ends
early when three checks in a row find no error.
"""

LONG_TERM = """\
Sequences of T random bits, -1 or 1, one a step; the class is a function of the first two. Every
iteration draws fresh sequences. A trial is learned when all of 2,000 test sequences, the same for
every seed, are classified right; this is looked at every 50 iterations and ends the trial. The
table also says when ten training batches in a row were right ("in training").

A KBRN that normalises does so, in training, by the statistics of each step. Those of the first
step, before which every state is zero, are far from those of later ones, and one running set of all
steps serves none of them: what was learned is not seen in evaluation mode. So the test set too is
normalised by its own statistics, step by step. --statistics running asks for evaluation mode; the
column "running" has its accuracy for every trial, at the end.

--preset quick (the default): or and equivalence, T = 10, seed 0, 3,000 iterations at most: minutes.
--preset practical: all functions, T = 10 30 50, seeds 0 1 2, 20,000 iterations at most, and the
KBRN on equivalence at T = 60 100: hours on two cores.
--preset paper: T = 5 10 20 30 40 50, seeds 0 to 4, 100,000 iterations, and the KBRN on equivalence
at T = 60 80 100 150 200. The paper names only the ends of the first range, 5 and 50; its text tells
30 and 50 apart, so it is walked in tens.
Other options replace what a preset says; --functions and --lengths leave out the longer sequences.

The grid of a folder may grow: --resume with other functions, lengths, seeds or models adds trials,
with more --max-iterations goes on with those that had not learned. --report makes the table and the
pictures of what is finished, also while another process trains.
"""

STATUS = """\
OUT holds metrics.json, table.md, the pictures, configuration.json and trials/, with a record and a
checkpoint of each trial. A trial whose loss is no longer a number ends there, as not learned.
Exit status: 0 done, 2 bad input, 130 interrupted.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: The words after the program's name; ``None``: those of this process.

    Returns:
        The exit status: 0 done, 2 bad input, 130 interrupted.
    """
    return exit_status(PROGRAM, lambda: _command(parser().parse_args(arguments)))


def parser() -> argparse.ArgumentParser:
    """The options."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM}",
        description="Trains units whose activation is learned, beside fixed ones.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="EXPERIMENT")
    _add_xor(commands)
    _add_charging(commands)
    _add_long_term(commands)
    return parser


def _experiment(commands: Any, name: str, help: str, description: str) -> argparse.ArgumentParser:
    added = commands.add_parser(
        name,
        program=PROGRAM,
        help=help,
        description=help[0].upper() + help[1:] + ".",
        epilog=f"{description}\n{STATUS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    assert isinstance(added, argparse.ArgumentParser)
    return added


def _add_xor(commands: Any) -> None:
    parser = _experiment(commands, "xor", "parity of two and four bits by one unit", XOR)
    trials = parser.add_argument_group("trials")
    trials.add_argument(
        "--inputs",
        nargs="+",
        type=integer(2, MOST_INPUTS),
        default=[2, 4],
        metavar="N",
        help="numbers of bits (2 4)",
    )
    trials.add_argument(
        "--l1",
        nargs="+",
        type=number(least=0),
        default=[0.0, XOR_L1],
        metavar="X",
        help=f"weights of the sum of absolute coefficients (0 {XOR_L1:g})",
    )
    add_seeds(trials, XOR_SEEDS)
    networks = parser.add_argument_group("unit")
    networks.add_argument(
        "--centers",
        nargs="+",
        type=integer(1, LARGEST_WIDTH),
        default=[50, 100, 300],
        metavar="N",
        help="numbers of centres (50 100 300)",
    )
    add_unit_options(networks, XOR_UNITS, greens=("abs", "relu"))
    parser.set_defaults(normalize=XOR_UNITS.normalize)
    training = parser.add_argument_group("training")
    add_learning_rate(training, XOR_TRAINING)
    add_iterations(training, XOR_ITERATIONS)
    add_running_options(parser, "xor")


def _add_charging(commands: Any) -> None:
    parser = _experiment(
        commands, "charging", "one recurrent unit that is charged and discharged", CHARGING
    )
    trials = parser.add_argument_group("trials")
    trials.add_argument(
        "--models",
        "--model",
        nargs="+",
        choices=(KBRN, RNN, LSTM),
        default=[KBRN, RNN, LSTM],
        metavar="NAME",
        help=f"one or more of {KBRN}, {RNN} (sigmoid units), {LSTM} (all)",
    )
    add_seeds(trials, CHARGING_SEEDS)
    networks = parser.add_argument_group("networks")
    add_forget_bias(networks)
    add_centers(networks, CHARGING_UNITS)
    add_unit_options(networks, CHARGING_UNITS)
    add_normalize(networks, CHARGING_UNITS)
    training = parser.add_argument_group("training")
    add_optimization_options(training, CHARGING_TRAINING)
    add_iterations(training, CHARGING_ITERATIONS)
    add_running_options(parser, "charging")


def _add_long_term(commands: Any) -> None:
    parser = _experiment(
        commands, "long-term", "bits at the beginning of a long sequence, KBRN and LSTM", LONG_TERM
    )
    trials = parser.add_argument_group("trials")
    trials.add_argument("--preset", choices=GRIDS, default="quick", help="see below (quick)")
    trials.add_argument(
        "--functions",
        "--function",
        nargs="+",
        choices=FUNCTIONS,
        metavar="NAME",
        help=f"one or more of {', '.join(FUNCTIONS)}",
    )
    trials.add_argument(
        "--lengths", "--length", nargs="+", type=integer(2, LONGEST), metavar="T", help="bits"
    )
    trials.add_argument(
        "--models",
        "--model",
        nargs="+",
        choices=(KBRN, LSTM),
        metavar="NAME",
        help=f"{KBRN}, {LSTM} or both",
    )
    trials.add_argument("--seeds", "--seed", nargs="+", type=integer(0), metavar="N")
    trials.add_argument(
        "--max-iterations", type=integer(1), metavar="N", help="after which a trial has failed"
    )
    networks = parser.add_argument_group("networks")
    networks.add_argument(
        "--hidden", type=integer(1, LARGEST_WIDTH), default=20, metavar="N", help="units (20)"
    )
    add_forget_bias(networks)
    add_centers(networks, LONG_TERM_UNITS)
    add_unit_options(networks, LONG_TERM_UNITS)
    add_normalize(networks, LONG_TERM_UNITS)
    training = parser.add_argument_group("training")
    add_optimization_options(training, Optimization())
    add_running_options(parser, "long-term")


def _command(options: argparse.Namespace) -> int:
    if options.resume and options.overwrite:
        raise InputError("--resume and --overwrite exclude each other")
    if options.report and (options.resume or options.overwrite):
        raise InputError("--report trains nothing: leave out --resume and --overwrite")
    low, high = options.init_range
    if low >= high:
        raise InputError(f"--init-range must be two increasing numbers, got {low:g} {high:g}")
    with naming_extras("bench"):
        from benchmarks.harness.devices import torch_device

        options.device = str(torch_device(options.device))
        study = {"xor": _xor, "charging": _charging, "long-term": _long_term}[options.command]
        study(options).carry_out(options, shown(options))
    return 0


def _xor(options: argparse.Namespace) -> "Study":
    from benchmarks.harness.activations.xor import xor_study

    sizes = (distinct(options.inputs), distinct(options.centers), distinct(options.l1))
    optimization = replace(XOR_TRAINING, learning_rate=options.learning_rate)
    return xor_study(
        Xor(chosen_units(options, XOR_UNITS.centers), optimization),
        sizes,
        distinct(options.seeds),
        options.max_iterations,
        options.device,
        _out(options),
    )


def _charging(options: argparse.Namespace) -> "Study":
    from benchmarks.harness.activations.charging import charging_study

    units = chosen_units(options, options.centers)
    return charging_study(
        Charging(units, chosen_optimization(options), options.forget_bias),
        distinct(options.models),
        distinct(options.seeds),
        options.max_iterations,
        options.device,
        _out(options),
    )


def _long_term(options: argparse.Namespace) -> "Study":
    from benchmarks.harness.activations.long_term import long_term_study

    units, training = chosen_units(options, options.centers), chosen_optimization(options)
    common = LongTerm(units, training, options.hidden, options.forget_bias)
    return long_term_study(common, _grid(options), options.device, _out(options))


def _grid(options: argparse.Namespace) -> Grid:
    """The preset, with what other options say in its place."""
    preset = GRIDS[options.preset]
    models = distinct(options.models) or preset.models
    shorter = options.functions or options.lengths or KBRN not in models
    return Grid(
        functions=distinct(options.functions) or preset.functions,
        lengths=distinct(options.lengths) or preset.lengths,
        models=models,
        seeds=distinct(options.seeds) or preset.seeds,
        iterations=options.max_iterations or preset.iterations,
        longer=() if shorter else preset.longer,
    )


def _out(options: argparse.Namespace) -> Path:
    return Path(options.out or f"runs/activations-{options.command}")


if __name__ == "__main__":
    sys.exit(main())
