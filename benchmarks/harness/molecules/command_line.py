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
    number,
    shown,
    training_config,
)
from benchmarks.harness.errors import InputError, naming_extras, say, tell
from benchmarks.harness.molecules.ogb_sets import OGB_SETS, in_short, with_ogb

PROGRAM = "benchmarks.molecules"
DATASETS = ("chembl", "cep", "csv", *OGB_SETS)
SPLITS = ("random", "scaffold", "column", "official")
TASKS = ("regression", "classification")
# The keys of models.MODELS and baselines.BASELINES: repeated to answer without importing torch.
MODELS = (
    "wl-gated",
    "wl",
    "graph-kernel",
    "gated-walk",
    "random-walk",
    "embedded-mean-field",
    "embedded-loopy-bp",
    "gine",
    "gin",
    "gin-relu",
    "gin-prelu",
    "gin-kernel",
    "neural-fingerprint",
    "attentive-fp",
    "mean",
    "wl-subtree-3",
    "wl-subtree-6",
    "random-walk-gp",
)
EPOCHS = with_ogb({"chembl": 60, "cep": 15, "csv": 60}, small=100, large=30)
BATCH_SIZE = with_ogb({"chembl": 64, "cep": 128, "csv": 64}, small=32, large=128)
LEARNING_RATE = with_ogb({"chembl": 0.001, "cep": 0.005, "csv": 0.001}, small=0.001, large=0.001)
PARAMETERS = 260_000
GP_MOLECULES = 2000
NORMS = ("batch", "layer", "head", "none")
READOUTS = ("sum", "last", "concat")
# What a preset sets where it is not given. Lei et al. 2017, section 6.3 and table 3: their 0.26
# million parameters, walks of 2 atoms and factor of 0.9 on the learning rate are the defaults.
PRESETS: dict[str, dict[str, Any]] = {
    "lei2017": {
        "dataset": "cep",
        "model": [
            "mean",
            "wl-subtree-3",
            "wl-subtree-6",
            "embedded-mean-field",
            "embedded-loopy-bp",
            "neural-fingerprint",
            "wl",
            "wl-gated",
            "graph-kernel",
            "gated-walk",
        ],
        "layers": 4,
        "schedule": "exponential",
        "resample": 0.05,
    }
}
CEP_ROOT = "data/cep"
OGB_ROOT = "data/ogb"
# Options that say something of --csv.
FILE_OPTIONS = (
    "csv",
    "smiles_column",
    "split_column",
    "target_columns",
    "skip_invalid",
    "task",
)
SKIPPED_SHOWN = 10  # all of them are in skipped.csv of a results folder

EPILOG = """\
To predict new molecules with a trained model:
  python -m benchmarks.molecules predict --checkpoint OUT/runs/MODEL-seedN/best.ckpt --csv FILE
To gather all results below a folder into one Markdown and one HTML page:
  python -m benchmarks.molecules report DIR

OUT holds metrics.json, predictions.csv, table.md, parity.png (curves.png of classes),
learning_curves.png, configuration.json and a folder for each run, runs/MODEL-seedN, with its best
checkpoint.
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
    if words[:1] == ["report"]:
        return exit_status(PROGRAM, lambda: _report(report_parser().parse_args(words[1:])))
    return exit_status(PROGRAM, lambda: _compare(compare_options(words)), several=True)


def compare_options(words: Sequence[str]) -> argparse.Namespace:
    """The options that train and compare models, those of a preset where they are not given."""
    parser = compare_parser()
    options = parser.parse_args(words)
    if options.preset is None:
        return options
    parser.set_defaults(**PRESETS[options.preset])
    if options.csv and not options.dataset:
        parser.set_defaults(dataset="csv")
    return parser.parse_args(words)


def compare_parser() -> argparse.ArgumentParser:
    """The options that train and compare models."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM}",
        description="Trains models of molecules on one split and compares them in one table.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--preset",
        choices=tuple(PRESETS),
        help="the set-up of Lei et al. 2017, table 3, and all of its rows on --dataset cep; any "
        "option that is given takes precedence",
    )
    _add_molecule_options(parser.add_argument_group("molecules"))
    _add_model_options(parser.add_argument_group("models"))
    training = parser.add_argument_group("training")
    defaults = (in_short(EPOCHS), in_short(BATCH_SIZE), in_short(LEARNING_RATE))
    add_training_options(training, *defaults, smallest_batch=2)
    add_result_options(parser.add_argument_group("results"), "runs/DATASET-SPLIT")
    return parser


def predict_parser() -> argparse.ArgumentParser:
    """The options that apply a trained model."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM} predict",
        description="Adds a column predicted_TARGET for every target to a CSV of SMILES: the "
        "predicted value, or the probability of class 1.",
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


def report_parser() -> argparse.ArgumentParser:
    """The options that gather results."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM} report",
        description="Gathers all results folders of this benchmark below a folder into report.md, "
        "with pictures beside it, and report.html, which needs nothing besides itself.",
        epilog="Exit status: 0 done, 1 something damaged was left out of the report, 2 bad input, "
        "130 interrupted.",
    )
    parser.add_argument("folder", type=nonempty, metavar="DIR", help="searched with all below it")
    parser.add_argument(
        "--out", type=nonempty, metavar="DIR", help="folder for the report (the one searched)"
    )
    parser.add_argument("--quiet", action="store_true", help="print the tables only")
    return parser


def _add_molecule_options(group: Any) -> None:
    group.add_argument(
        "--dataset",
        choices=DATASETS,
        metavar="NAME",
        help="chembl: 1,017 sulfonamides from inside RDKit; cep: 29,978 molecules of the Clean "
        "Energy Project, downloaded; csv: your own; a molecule set of the Open Graph Benchmark, "
        f"downloaded: {', '.join(OGB_SETS)} (chembl; csv where --csv is given)",
    )
    group.add_argument(
        "--csv", type=nonempty, metavar="FILE", help="CSV with a header, for --dataset csv"
    )
    group.add_argument("--smiles-column", type=nonempty, metavar="NAME", help="(smiles)")
    group.add_argument(
        "--task",
        choices=TASKS,
        help="what the targets of --csv are: numbers, or classes 0 and 1 (regression)",
    )
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
        "--shards",
        type=nonempty,
        metavar="DIR",
        help="keep the molecules of --dataset csv or cep in this folder, about 200 bytes each, and "
        "not in memory; written there first, or continued, as far as they are not there",
    )
    group.add_argument(
        "--root",
        type=nonempty,
        metavar="DIR",
        help=f"folder of --dataset cep ({CEP_ROOT}), or of all sets of OGB ({OGB_ROOT})",
    )
    group.add_argument(
        "--split",
        choices=SPLITS,
        help="80/10/10 at random, 80/10/10 by Bemis-Murcko scaffold, or as a column says (random; "
        "column where --split-column is given); official: by scaffold, that of the sets of OGB, "
        "which have no other",
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
    group.add_argument(
        "--resample",
        type=number(least=0),
        default=0.0,
        metavar="W",
        help="draw training molecules so that all bins of width W of the target are equally "
        "likely, as many as there are (0: every molecule once an epoch)",
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
        "--norm",
        choices=NORMS,
        default="batch",
        help="normalisation of the states and of the head's input, over the batch or each row; "
        "head: of the latter alone, over the batch (batch)",
    )
    group.add_argument(
        "--dropout",
        type=number(least=0, below=1),
        default=0.0,
        metavar="P",
        help="probability of dropping a channel of a layer's output (0)",
    )
    group.add_argument(
        "--readout",
        choices=READOUTS,
        default="sum",
        help="of the Weisfeiler-Lehman nets: the sum over iterations, the last one, or all side "
        "by side (sum)",
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
    official = options.dataset in OGB_SETS
    named = "official" if official else "column" if options.split_column else "random"
    options.split = options.split or named
    if options.dataset == "csv" and not options.csv:
        raise InputError("--dataset csv needs --csv FILE")
    if options.dataset != "csv":
        for option in FILE_OPTIONS:
            if getattr(options, option):
                flag = option.replace("_", "-")
                raise InputError(f"--{flag} goes with --dataset csv, not {options.dataset}")
    if options.shards and options.dataset not in ("csv", "cep"):
        raise InputError(f"--shards goes with --dataset csv or cep, not {options.dataset}")
    if official != (options.split == "official"):
        raise InputError(
            f"--dataset {options.dataset} has its official split alone, not --split {options.split}"
            if official
            else f"--split official goes with a set of OGB, not --dataset {options.dataset}"
        )
    if (options.split == "column") != bool(options.split_column):
        raise InputError("--split column and --split-column NAME go together")
    if options.root and not (official or options.dataset == "cep"):
        raise InputError(f"--root goes with --dataset cep or ogbg-..., not {options.dataset}")
    if options.gp_molecules and "random-walk-gp" not in options.model:
        raise InputError("--gp-molecules goes with --model random-walk-gp")
    if options.split in ("column", "official") and options.split_seed is not None:
        raise InputError(f"--split-seed goes with --split random or scaffold, not {options.split}")
    check_training_options(options)
    if options.split == "random" and options.split_seed is None:
        options.split_seed = 0


def _compare(options: argparse.Namespace) -> int:
    _check_options(options)
    with naming_extras("mol,bench"):
        import pyg_kernels.chem  # noqa: F401
        from benchmarks.harness.collective import in_turn
        from benchmarks.harness.experiment import Experiment
        from benchmarks.harness.molecules.data import DataChoice, load_molecules
        from benchmarks.harness.molecules.report import describe, tables, write_report
        from benchmarks.harness.molecules.task import MoleculeTask, model_configs
    choice = DataChoice(
        dataset=options.dataset,
        split=options.split,
        split_seed=options.split_seed,
        root=options.root or (OGB_ROOT if options.dataset in OGB_SETS else CEP_ROOT),
        csv=options.csv,
        smiles_column=options.smiles_column or "smiles",
        target_columns=options.target_columns,
        split_column=options.split_column,
        skip_invalid=options.skip_invalid,
        shards=options.shards,
        resample=options.resample or None,
        task=options.task,
    )
    data = in_turn(lambda: load_molecules(choice, progress=shown(options) == "bar"))
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
            norm=None if options.norm == "none" else options.norm,
            dropout=options.dropout,
            readout=options.readout,
        ),
        seeds=list(dict.fromkeys(options.seeds)),
        training=training_config(options, EPOCHS, BATCH_SIZE, LEARNING_RATE),
        out=Path(options.out or f"runs/{options.dataset}-{options.split}"),
        arguments=options.arguments,
    )
    experiment.check()
    experiment.open_folder(options.resume, options.overwrite)
    _tell_skipped(data.molecules)
    _tell_shards(options, data.molecules)
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
        from benchmarks.harness.molecules.prediction import (
            check_output,
            predict_csv,
            write_predictions,
        )
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


def _report(options: argparse.Namespace) -> int:
    with naming_extras("mol,bench"):
        from benchmarks.harness.molecules.gathering.report import report
    out = Path(options.out or options.folder)
    found = report(Path(options.folder), out)
    for section in found.sections:
        say(f"{section.title}\n{section.comparison.text()}\n")
    if not options.quiet:
        say(f"{found.summary}\nreport.md and report.html in {out}")
    for line in found.left_out:
        print(f"{PROGRAM}: left out: {line}", file=sys.stderr)
    return 1 if found.left_out else 0


def _tell_skipped(molecules: Any) -> None:
    """Counts and lists on standard error the molecules that were left out on request."""
    skipped = molecules.skipped
    if not skipped:
        return
    listed = "; ".join(
        f"line {row.row} {row.smiles!r} ({row.reason})" for row in skipped[:SKIPPED_SHOWN]
    )
    more = f"; and {len(skipped) - SKIPPED_SHOWN} more" * (len(skipped) > SKIPPED_SHOWN)
    tell(f"{PROGRAM}: left out {len(skipped)} SMILES that cannot be read: {listed}{more}")


def _tell_shards(options: argparse.Namespace, molecules: Any) -> None:
    """Says on standard error how large the shards are."""
    if options.shards and not options.quiet:
        size, number = molecules.num_bytes, len(molecules)
        tell(
            f"{PROGRAM}: shards {options.shards}: {number:,} molecules, {size / 1e6:,.1f} MB, "
            f"{size / number:.0f} bytes a molecule"
        )


def _tell_targets(options: argparse.Namespace, names: Sequence[str]) -> None:
    """Names on standard error the targets that were taken without being asked for."""
    if options.dataset == "csv" and not options.target_columns and len(names) > 1:
        taken = ", ".join(map(repr, names))
        tell(f"{PROGRAM}: predicts {len(names)} columns: {taken} (--target-columns chooses)")
