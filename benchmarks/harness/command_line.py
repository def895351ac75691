"""``python -m benchmarks.molecules``: arguments, errors in one line, exit statuses.

Heavy imports happen inside the commands, after the arguments have been read: ``--help`` and a
misspelt option answer at once.
"""

import argparse
import io
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from benchmarks.harness.errors import (
    DivergenceError,
    InputError,
    as_input_error,
    naming_extras,
    say,
)

PROGRAM = "benchmarks.molecules"
DATASETS = ("chembl", "cep", "csv")
SPLITS = ("random", "scaffold", "column")
# The keys of models.MODELS, regressor.SCHEDULES: repeated here to answer without importing torch.
MODELS = (
    "wl-gated",
    "wl",
    "graph-kernel",
    "gated-walk",
    "random-walk",
    "gine",
    "gin",
    "neural-fingerprint",
    "mean",
)
SCHEDULES = ("cosine", "exponential", "plateau", "none")
PRECISIONS = ("auto", "32-true", "16-mixed", "bf16-mixed")
EPOCHS = {"chembl": 60, "cep": 15, "csv": 60}
BATCH_SIZE = {"chembl": 64, "cep": 128, "csv": 64}
LEARNING_RATE = {"chembl": 0.001, "cep": 0.005, "csv": 0.001}
PARAMETERS = 260_000
CEP_ROOT = "data/cep"
FACTOR = {"exponential": 0.9, "plateau": 0.5}
LARGEST = 2**31 - 1
LARGEST_WIDTH = 2**16
MOST_LAYERS = 1000
SKIPPED_SHOWN = 10  # all of them are in skipped.csv of a results folder

EPILOG = """\
To predict new molecules with a trained model:
  python -m benchmarks.molecules predict --checkpoint OUT/runs/MODEL-seedN/best.ckpt --csv FILE

OUT holds metrics.json, predictions.csv, table.md, parity.png, learning_curves.png,
configuration.json and a folder for each run, runs/MODEL-seedN, with its best checkpoint.
Exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
"""


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Exits with status 2 after one line."""
        self.exit(2, f"{PROGRAM}: error: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: The words after the program's name; ``None``: those of this process.

    Returns:
        The exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name may have letters that it cannot write
            stream.reconfigure(errors="replace")
    words = list(sys.argv[1:] if arguments is None else arguments)
    command, parser = (
        (_predict, predict_parser()) if words[:1] == ["predict"] else (_compare, compare_parser())
    )
    try:
        return command(parser.parse_args(words[1:] if words[:1] == ["predict"] else words))
    except InputError as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return 2
    except DivergenceError as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as interrupt:
        hint = f"; {interrupt}" if str(interrupt) else ""
        print(f"\n{PROGRAM}: interrupted{hint}", file=sys.stderr)
        return 130


def compare_parser() -> argparse.ArgumentParser:
    """The options that train and compare models."""
    parser = OneLineParser(
        prog=f"python -m {PROGRAM}",
        description="Trains molecule regressors on one split and compares them in one table.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_molecule_options(parser.add_argument_group("molecules"))
    _add_model_options(parser.add_argument_group("models"))
    _add_training_options(parser.add_argument_group("training"))
    results = parser.add_argument_group("results")
    results.add_argument(
        "--out", type=_name, metavar="DIR", help="results folder (runs/DATASET-SPLIT)"
    )
    results.add_argument(
        "--resume",
        action="store_true",
        help="continue what was interrupted in --out; the result is that of an uninterrupted run",
    )
    results.add_argument(
        "--overwrite", action="store_true", help="replace the results that lie in --out"
    )
    results.add_argument("--quiet", action="store_true", help="print the final table only")
    return parser


def predict_parser() -> argparse.ArgumentParser:
    """The options that apply a trained model."""
    parser = OneLineParser(
        prog=f"python -m {PROGRAM} predict",
        description="Adds a column predicted_TARGET for every target to a CSV of SMILES.",
    )
    parser.add_argument(
        "--checkpoint", required=True, type=_name, metavar="FILE", help="best.ckpt of a run"
    )
    parser.add_argument(
        "--csv", required=True, type=_name, metavar="FILE", help="CSV with a header"
    )
    parser.add_argument("--smiles-column", default="smiles", metavar="NAME", help="(smiles)")
    parser.add_argument("--out", type=_name, metavar="FILE", help="CSV to write (standard output)")
    parser.add_argument(
        "--skip-invalid",
        action="store_true",
        help="leave the prediction of SMILES that do not parse empty instead of stopping",
    )
    _add_device_option(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser


def _add_molecule_options(group: Any) -> None:
    group.add_argument(
        "--dataset",
        choices=DATASETS,
        help="chembl: 1,017 sulfonamides from inside RDKit; cep: 29,978 molecules of the Clean "
        "Energy Project, downloaded; csv: your own (chembl; csv where --csv is given)",
    )
    group.add_argument(
        "--csv", type=_name, metavar="FILE", help="CSV with a header, for --dataset csv"
    )
    group.add_argument("--smiles-column", type=_name, metavar="NAME", help="(smiles)")
    group.add_argument(
        "--target-columns",
        nargs="+",
        type=_name,
        metavar="NAME",
        help="(every other column of numbers)",
    )
    group.add_argument(
        "--skip-invalid",
        action="store_true",
        help="leave out SMILES that do not parse, and list them, instead of stopping",
    )
    group.add_argument(
        "--root", type=_name, metavar="DIR", help=f"folder of --dataset cep ({CEP_ROOT})"
    )
    group.add_argument(
        "--split",
        choices=SPLITS,
        help="80/10/10 at random, 80/10/10 by Bemis-Murcko scaffold, or as a column says (random; "
        "column where --split-column is given)",
    )
    group.add_argument(
        "--split-column",
        type=_name,
        metavar="NAME",
        help="column of train, valid, test in --csv",
    )
    group.add_argument(
        "--split-seed",
        type=_integer(0),
        metavar="N",
        help="of the random split (0), or of the order of scaffolds (largest first)",
    )


def _add_model_options(group: Any) -> None:
    group.add_argument(
        "--model",
        nargs="+",
        choices=MODELS,
        default=["wl-gated", "gine", "mean"],
        metavar="NAME",
        help=f"one or more of {', '.join(MODELS)} (wl-gated gine mean)",
    )
    group.add_argument(
        "--parameters",
        type=_integer(1),
        metavar="N",
        help=f"each model gets the largest width within this number of parameters ({PARAMETERS})",
    )
    group.add_argument(
        "--hidden", type=_integer(1, LARGEST_WIDTH), metavar="N", help="this width instead"
    )
    group.add_argument(
        "--layers",
        type=_integer(1, MOST_LAYERS),
        default=4,
        metavar="N",
        help="layers or iterations (4)",
    )
    group.add_argument(
        "--order",
        type=_integer(1, MOST_LAYERS),
        metavar="N",
        help="nodes in a walk (2; as many as --layers for gated-walk and random-walk)",
    )


def _add_training_options(group: Any) -> None:
    group.add_argument(
        "--seeds", "--seed", nargs="+", type=_integer(0), default=[0], metavar="N", help="(0)"
    )
    group.add_argument(
        "--epochs", type=_integer(1), metavar="N", help=f"at most ({_by_dataset(EPOCHS)})"
    )
    group.add_argument(
        "--batch-size", type=_integer(2), metavar="N", help=f"({_by_dataset(BATCH_SIZE)})"
    )
    group.add_argument(
        "--lr",
        type=_number(above=0),
        metavar="X",
        help=f"learning rate ({_by_dataset(LEARNING_RATE)})",
    )
    group.add_argument(
        "--schedule",
        choices=SCHEDULES,
        default="cosine",
        help="of the learning rate: short warm-up and cosine over --epochs; times --lr-factor "
        "every epoch; times --lr-factor after 5 epochs without progress; constant (cosine)",
    )
    group.add_argument(
        "--lr-factor",
        type=_number(above=0, below=1),
        metavar="X",
        help="(0.9 for exponential, 0.5 for plateau)",
    )
    group.add_argument(
        "--weight-decay", type=_number(least=0), default=0.0, metavar="X", help="L2 penalty (0)"
    )
    group.add_argument(
        "--clip",
        type=_number(least=0),
        default=5.0,
        metavar="X",
        help="largest norm of the gradient (5; 0: any)",
    )
    group.add_argument(
        "--patience",
        type=_integer(1),
        metavar="N",
        help="stop after N epochs without a better validation error (a third of --epochs, "
        "at least 10)",
    )
    _add_device_option(group)
    group.add_argument(
        "--precision",
        choices=PRECISIONS,
        default="auto",
        help="auto: bf16-mixed on a GPU that has it, otherwise 32-true",
    )


def _add_device_option(group: Any) -> None:
    group.add_argument(
        "--device", default="auto", metavar="NAME", help="auto, cpu, cuda, cuda:N or mps (auto)"
    )


def _by_dataset(values: Mapping[str, float]) -> str:
    return ", ".join(f"{value} for {name}" for name, value in values.items())


def _name(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def _integer(least: int, most: int = LARGEST) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(
                f"must be an integer of at least {least} and at most {most}, got {text}"
            )
        return int(text)

    return convert


def _number(
    above: float = -math.inf, below: float = math.inf, least: float = -math.inf
) -> Callable[[str], float]:
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
            raise argparse.ArgumentTypeError(f"must be a number {' and '.join(bounds)}, got {text}")
        return value

    return convert


def _check_options(options: argparse.Namespace) -> None:
    """Fills in the data set and the split, and refuses options that would have no effect."""
    options.dataset = options.dataset or ("csv" if options.csv else "chembl")
    options.split = options.split or ("column" if options.split_column else "random")
    if options.dataset == "csv" and not options.csv:
        raise InputError("--dataset csv needs --csv FILE")
    if options.dataset != "csv":
        for name in ("csv", "smiles_column", "split_column", "target_columns", "skip_invalid"):
            if getattr(options, name):
                flag = name.replace("_", "-")
                raise InputError(f"--{flag} goes with --dataset csv, not {options.dataset}")
    if (options.split == "column") != bool(options.split_column):
        raise InputError("--split column and --split-column NAME go together")
    if options.root and options.dataset != "cep":
        raise InputError(f"--root goes with --dataset cep, not {options.dataset}")
    if options.split == "column" and options.split_seed is not None:
        raise InputError("--split-seed goes with --split random or scaffold, not column")
    if options.lr_factor and options.schedule not in FACTOR:
        raise InputError(
            f"--lr-factor goes with --schedule {' or '.join(FACTOR)}, not {options.schedule}"
        )
    for one, other in (("resume", "overwrite"), ("hidden", "parameters")):
        if getattr(options, one) and getattr(options, other):
            raise InputError(f"--{one} and --{other} exclude each other")
    if options.split == "random" and options.split_seed is None:
        options.split_seed = 0


def _compare(options: argparse.Namespace) -> int:
    _check_options(options)
    with naming_extras():
        import pyg_kernels.datasets  # noqa: F401
        from benchmarks.harness.data import DataChoice, load_molecules
        from benchmarks.harness.experiment import Experiment, model_configs
        from benchmarks.harness.report import describe, tables, write_report
    choice = DataChoice(
        dataset=options.dataset,
        split=options.split,
        split_seed=options.split_seed,
        root=options.root or CEP_ROOT,
        csv=options.csv,
        smiles_column=options.smiles_column or "smiles",
        target_columns=options.target_columns,
        split_column=options.split_column,
        skip_invalid=options.skip_invalid,
    )
    data = load_molecules(choice, progress=_shown(options) == "bar")
    experiment = Experiment(
        data=data,
        models=model_configs(
            dict.fromkeys(options.model),
            data,
            hidden=options.hidden,
            num_layers=options.layers,
            order=options.order,
            budget=options.parameters or PARAMETERS,
        ),
        seeds=list(dict.fromkeys(options.seeds)),
        training=_training_config(options),
        out=Path(options.out or f"runs/{options.dataset}-{options.split}"),
    )
    experiment.check()
    experiment.open_folder(options.resume, options.overwrite)
    _tell_skipped(data.molecules)
    _tell_targets(options, data.molecules.target_names)
    if not options.quiet:
        say(describe(data))
    try:
        runs = experiment.run()
    except KeyboardInterrupt:
        raise KeyboardInterrupt("continue with the same command and --resume") from None
    say("\n\n".join(table.text() for table in tables(runs, data)))
    with as_input_error():
        write_report(experiment.out, runs, data)
    if not options.quiet:
        say(f"\nresults in {experiment.out}")
    return 0


def _training_config(options: argparse.Namespace) -> Any:
    from benchmarks.harness.regressor import OptimiserConfig
    from benchmarks.harness.training import TrainingConfig

    epochs = options.epochs or EPOCHS[options.dataset]
    return TrainingConfig(
        epochs=epochs,
        batch_size=options.batch_size or BATCH_SIZE[options.dataset],
        patience=options.patience or max(10, epochs // 3),
        clip=options.clip,
        optimiser=OptimiserConfig(
            learning_rate=options.lr or LEARNING_RATE[options.dataset],
            schedule=options.schedule,
            factor=options.lr_factor or FACTOR.get(options.schedule, 1.0),
            weight_decay=options.weight_decay,
        ),
        device=options.device,
        precision=options.precision,
        show=_shown(options),
    )


def _predict(options: argparse.Namespace) -> int:
    with naming_extras():
        import pyg_kernels.datasets  # noqa: F401
        from benchmarks.harness.prediction import check_output, predict_csv, write_predictions
    inputs = [options.csv, options.checkpoint]
    if options.out:
        check_output(options.out, inputs)
    text, molecules = predict_csv(
        options.checkpoint,
        options.csv,
        smiles_column=options.smiles_column,
        skip_invalid=options.skip_invalid,
        device=options.device,
        progress=_shown(options) == "bar",
    )
    _tell_skipped(molecules)
    if options.out:
        write_predictions(text, options.out, inputs)
    else:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as the input and --out
        say(text, end="")
    return 0


def _shown(options: argparse.Namespace) -> str:
    if options.quiet:
        return "nothing"
    terminal = sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).lines > 0
    return "bar" if terminal else "lines"


def _tell_skipped(molecules: Any) -> None:
    """Counts and lists on standard error the molecules that were left out on request."""
    skipped = molecules.skipped
    if not skipped:
        return
    listed = "; ".join(
        f"line {row.row} {row.smiles!r} ({row.reason})" for row in skipped[:SKIPPED_SHOWN]
    )
    more = f"; and {len(skipped) - SKIPPED_SHOWN} more" * (len(skipped) > SKIPPED_SHOWN)
    print(
        f"{PROGRAM}: left out {len(skipped)} SMILES that cannot be read: {listed}{more}",
        file=sys.stderr,
    )


def _tell_targets(options: argparse.Namespace, names: Sequence[str]) -> None:
    """Names on standard error the targets that were taken without being asked for."""
    if options.dataset == "csv" and not options.target_columns and len(names) > 1:
        taken = ", ".join(map(repr, names))
        print(
            f"{PROGRAM}: predicts {len(names)} columns: {taken} (--target-columns chooses)",
            file=sys.stderr,
        )
