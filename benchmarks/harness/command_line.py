"""``python -m benchmarks.molecules``: arguments, errors in one line, exit statuses.

Heavy imports happen inside the commands, after the arguments have been read: ``--help`` and a
misspelt option answer at once.
"""

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.arguments import (
    LARGEST_WIDTH,
    MOST_LAYERS,
    OneLineParser,
    add_device_option,
    add_result_options,
    add_training_options,
    check_training_options,
    exit_status,
    integer,
    nonempty,
    shown,
    training_config,
)
from benchmarks.harness.errors import InputError, naming_extras, say

PROGRAM = "benchmarks.molecules"
DATASETS = ("chembl", "cep", "csv")
SPLITS = ("random", "scaffold", "column")
# The keys of models.MODELS and baselines.BASELINES: repeated to answer without importing torch.
MODELS = (
    "wl-gated",
    "wl",
    "graph-kernel",
    "gated-walk",
    "random-walk",
    "gine",
    "gin",
    "gin-relu",
    "gin-prelu",
    "gin-kernel",
    "neural-fingerprint",
    "mean",
    "wl-subtree-3",
    "wl-subtree-6",
    "random-walk-gp",
)
EPOCHS = {"chembl": 60, "cep": 15, "csv": 60}
BATCH_SIZE = {"chembl": 64, "cep": 128, "csv": 64}
LEARNING_RATE = {"chembl": 0.001, "cep": 0.005, "csv": 0.001}
PARAMETERS = 260_000
GP_MOLECULES = 2000
CEP_ROOT = "data/cep"
SKIPPED_SHOWN = 10  # all of them are in skipped.csv of a results folder

EPILOG = """\
To predict new molecules with a trained model:
  python -m benchmarks.molecules predict --checkpoint OUT/runs/MODEL-seedN/best.ckpt --csv FILE

OUT holds metrics.json, predictions.csv, table.md, parity.png, learning_curves.png,
configuration.json and a folder for each run, runs/MODEL-seedN, with its best checkpoint.
Exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: The words after the program's name; ``None``: those of this process.

    Returns:
        The exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["predict"]:
        return exit_status(PROGRAM, lambda: _predict(predict_parser().parse_args(words[1:])))
    return exit_status(PROGRAM, lambda: _compare(compare_parser().parse_args(words)))


def compare_parser() -> argparse.ArgumentParser:
    """The options that train and compare models."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM}",
        description="Trains molecule regressors on one split and compares them in one table.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_molecule_options(parser.add_argument_group("molecules"))
    _add_model_options(parser.add_argument_group("models"))
    training = parser.add_argument_group("training")
    add_training_options(training, EPOCHS, BATCH_SIZE, LEARNING_RATE, smallest_batch=2)
    add_result_options(parser.add_argument_group("results"), "runs/DATASET-SPLIT")
    return parser


def predict_parser() -> argparse.ArgumentParser:
    """The options that apply a trained model."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM} predict",
        description="Adds a column predicted_TARGET for every target to a CSV of SMILES.",
    )
    parser.add_argument(
        "--checkpoint", required=True, type=nonempty, metavar="FILE", help="best.ckpt of a run"
    )
    parser.add_argument(
        "--csv", required=True, type=nonempty, metavar="FILE", help="CSV with a header"
    )
    parser.add_argument("--smiles-column", default="smiles", metavar="NAME", help="(smiles)")
    parser.add_argument(
        "--out", type=nonempty, metavar="FILE", help="CSV to write (standard output)"
    )
    parser.add_argument(
        "--skip-invalid",
        action="store_true",
        help="leave the prediction of SMILES that do not parse empty instead of stopping",
    )
    add_device_option(parser)
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
        "--csv", type=nonempty, metavar="FILE", help="CSV with a header, for --dataset csv"
    )
    group.add_argument("--smiles-column", type=nonempty, metavar="NAME", help="(smiles)")
    group.add_argument(
        "--target-columns",
        nargs="+",
        type=nonempty,
        metavar="NAME",
        help="(every other column of numbers)",
    )
    group.add_argument(
        "--skip-invalid",
        action="store_true",
        help="leave out SMILES that do not parse, and list them, instead of stopping",
    )
    group.add_argument(
        "--root", type=nonempty, metavar="DIR", help=f"folder of --dataset cep ({CEP_ROOT})"
    )
    group.add_argument(
        "--split",
        choices=SPLITS,
        help="80/10/10 at random, 80/10/10 by Bemis-Murcko scaffold, or as a column says (random; "
        "column where --split-column is given)",
    )
    group.add_argument(
        "--split-column",
        type=nonempty,
        metavar="NAME",
        help="column of train, valid, test in --csv",
    )
    group.add_argument(
        "--split-seed",
        type=integer(0),
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
        type=integer(1),
        metavar="N",
        help="each model gets the largest width within this number of parameters, gin-prelu and "
        f"gin-kernel that of gin-relu ({PARAMETERS})",
    )
    group.add_argument(
        "--hidden", type=integer(1, LARGEST_WIDTH), metavar="N", help="this width instead"
    )
    group.add_argument(
        "--layers",
        type=integer(1, MOST_LAYERS),
        default=4,
        metavar="N",
        help="layers or iterations (4)",
    )
    group.add_argument(
        "--order",
        type=integer(1, MOST_LAYERS),
        metavar="N",
        help="nodes in a walk (2; as many as --layers for gated-walk and random-walk; 3 for "
        "random-walk-gp)",
    )
    group.add_argument(
        "--gp-molecules",
        type=integer(2),
        metavar="N",
        help="random-walk-gp sees at most N molecules of the training part, drawn at random "
        f"({GP_MOLECULES}); time grows with N times all molecules",
    )


def _check_options(options: argparse.Namespace) -> None:
    """Fills in the data set and the split, and refuses options that would have no effect."""
    options.dataset = options.dataset or ("csv" if options.csv else "chembl")
    options.split = options.split or ("column" if options.split_column else "random")
    if options.dataset == "csv" and not options.csv:
        raise InputError("--dataset csv needs --csv FILE")
    if options.dataset != "csv":
        for option in ("csv", "smiles_column", "split_column", "target_columns", "skip_invalid"):
            if getattr(options, option):
                flag = option.replace("_", "-")
                raise InputError(f"--{flag} goes with --dataset csv, not {options.dataset}")
    if (options.split == "column") != bool(options.split_column):
        raise InputError("--split column and --split-column NAME go together")
    if options.root and options.dataset != "cep":
        raise InputError(f"--root goes with --dataset cep, not {options.dataset}")
    if options.gp_molecules and "random-walk-gp" not in options.model:
        raise InputError("--gp-molecules goes with --model random-walk-gp")
    if options.split == "column" and options.split_seed is not None:
        raise InputError("--split-seed goes with --split random or scaffold, not column")
    check_training_options(options)
    if options.split == "random" and options.split_seed is None:
        options.split_seed = 0


def _compare(options: argparse.Namespace) -> int:
    _check_options(options)
    with naming_extras("mol,bench"):
        import pyg_kernels.chem  # noqa: F401
        from benchmarks.harness.data import DataChoice, load_molecules
        from benchmarks.harness.experiment import Experiment
        from benchmarks.harness.molecules import MoleculeTask, model_configs
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
    data = load_molecules(choice, progress=shown(options) == "bar")
    experiment = Experiment(
        task=MoleculeTask(data),
        models=model_configs(
            dict.fromkeys(options.model),
            data,
            hidden=options.hidden,
            num_layers=options.layers,
            order=options.order,
            budget=options.parameters or PARAMETERS,
            gp_molecules=options.gp_molecules or GP_MOLECULES,
        ),
        seeds=list(dict.fromkeys(options.seeds)),
        training=training_config(options, EPOCHS, BATCH_SIZE, LEARNING_RATE),
        out=Path(options.out or f"runs/{options.dataset}-{options.split}"),
    )
    experiment.check()
    experiment.open_folder(options.resume, options.overwrite)
    _tell_skipped(data.molecules)
    _tell_targets(options, data.molecules.target_names)
    experiment.carry_out(
        describe(data),
        lambda runs: "\n\n".join(table.text() for table in tables(runs, data)),
        lambda runs: write_report(experiment.out, runs, data),
        options.quiet,
    )
    return 0


def _predict(options: argparse.Namespace) -> int:
    with naming_extras("mol,bench"):
        import pyg_kernels.chem  # noqa: F401
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
        progress=shown(options) == "bar",
    )
    _tell_skipped(molecules)
    if options.out:
        write_predictions(text, options.out, inputs)
    else:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as the input and --out
        say(text, end="")
    return 0


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
