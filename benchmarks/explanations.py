"""Exact attributions of predictions, beside other explainers: molecules and sentences.

``python -m benchmarks.explanations --help``. Heavy imports happen after the arguments have been
read: ``--help`` and a misspelt option answer at once.
"""

import argparse
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
    by_dataset,
    exit_status,
    integer,
    nonempty,
    number,
    shown,
)
from benchmarks.harness.errors import InputError, naming_extras, say
from benchmarks.harness.explanations.setting import (
    BATCH_SIZE,
    CEP_ROOT,
    DATASETS,
    EPOCHS,
    LEARNING_RATE,
    METHODS,
    MODELS,
    NORMS,
    PROGRAM,
    SMARTS,
    TEXT_DATASETS,
    Compared,
    Molecules,
    Network,
    Setting,
    Shown,
    Texts,
)

FILE_OPTIONS = ("csv", "smiles_column", "target_columns")
DESCRIPTION = """\
Trains a Weisfeiler-Lehman kernel network on the number of a functional group in molecules, explains
its predictions with several methods, and compares these by the atoms that they find; draws what
adds up to its predictions, to those of measured targets and, with --text-root, to what an RCNN
makes of sentences.
"""
EPILOG = """\
OUT holds metrics.json, table.md, explanations.html, planted.png, molecules.png, sentence-N.png,
configuration.json, runs/ with the trained networks and explained/ with what each method says.
Exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: The words after the program's name; ``None``: those of this process.

    Returns:
        The exit status: 0 done, 1 training diverged, 2 bad input, 130 interrupted.
    """
    return exit_status(PROGRAM, lambda: _command(parser().parse_args(arguments)))


def parser() -> argparse.ArgumentParser:
    """The options."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM}",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_molecule_options(parser.add_argument_group("molecules"))
    _add_network_options(parser.add_argument_group("network"))
    _add_method_options(parser.add_argument_group("explanations"))
    _add_text_options(parser.add_argument_group("sentences"))
    running = parser.add_argument_group("running")
    running.add_argument("--seed", type=integer(0), default=0, metavar="N", help="(0)")
    add_device_option(running)
    add_result_options(parser.add_argument_group("results"), "runs/explanations-DATASET")
    return parser


def _add_molecule_options(group: Any) -> None:
    group.add_argument(
        "--dataset",
        choices=DATASETS,
        help="chembl: 1,017 sulfonamides from inside RDKit; cep: 29,978 molecules of the Clean "
        "Energy Project, downloaded; csv: your own (chembl; csv where --csv is given)",
    )
    group.add_argument("--root", type=nonempty, metavar="DIR", help=f"of cep ({CEP_ROOT})")
    group.add_argument("--csv", type=nonempty, metavar="FILE", help="CSV with a header")
    group.add_argument("--smiles-column", type=nonempty, metavar="NAME", help="of --csv (smiles)")
    group.add_argument(
        "--target-columns",
        nargs="+",
        type=nonempty,
        metavar="NAME",
        help="of --csv; the first one is explained (every other column of numbers)",
    )
    group.add_argument(
        "--smarts",
        type=nonempty,
        metavar="PATTERN",
        help="the group whose number is the planted target "
        f"({', '.join(f'{smarts} for {name}' for name, smarts in SMARTS.items())})",
    )


def _add_network_options(group: Any) -> None:
    default = Network()
    group.add_argument(
        "--checkpoint",
        type=nonempty,
        metavar="FILE",
        help="best.ckpt of a run of benchmarks.molecules on the same measured target, in place of "
        "the network that would be trained on it",
    )
    group.add_argument("--model", choices=MODELS, default=default.model, help=f"({default.model})")
    for name, value, most, text in (
        ("hidden", default.hidden, LARGEST_WIDTH, "width"),
        ("layers", default.layers, MOST_LAYERS, "iterations"),
        ("order", default.order, MOST_LAYERS, "nodes in a walk"),
    ):
        group.add_argument(
            f"--{name}",
            type=integer(1, most),
            default=value,
            metavar="N",
            help=f"{text} ({value})",
        )
    group.add_argument(
        "--norm",
        choices=NORMS,
        default=default.norm,
        help="normalisation over the batch of the labels and of the head's input, of the latter "
        f"alone, or none ({default.norm})",
    )
    group.add_argument(
        "--epochs", type=integer(1), metavar="N", help=f"at most ({by_dataset(EPOCHS)})"
    )
    group.add_argument(
        "--batch-size", type=integer(2), metavar="N", help=f"({by_dataset(BATCH_SIZE)})"
    )
    group.add_argument(
        "--lr",
        type=number(above=0),
        metavar="X",
        help=f"learning rate ({by_dataset(LEARNING_RATE)})",
    )


def _add_method_options(group: Any) -> None:
    default, drawn = Compared(), Shown()
    group.add_argument(
        "--methods",
        nargs="+",
        choices=METHODS,
        default=list(METHODS),
        metavar="NAME",
        help=f"one or more of {', '.join(METHODS)} (all)",
    )
    group.add_argument(
        "--molecules",
        type=integer(1),
        default=default.molecules,
        metavar="N",
        help=f"explained ones of the test part, at most ({default.molecules})",
    )
    group.add_argument(
        "--gnn-epochs",
        type=integer(1),
        default=default.gnn_epochs,
        metavar="N",
        help=f"steps of GNNExplainer ({default.gnn_epochs})",
    )
    group.add_argument(
        "--ig-steps",
        type=integer(1),
        default=default.steps,
        metavar="N",
        help=f"of integrated gradients ({default.steps})",
    )
    group.add_argument(
        "--drawn",
        type=integer(1),
        default=drawn.drawn,
        metavar="N",
        help=f"molecules of each kind, and sentences ({drawn.drawn})",
    )
    group.add_argument(
        "--best",
        type=integer(1),
        default=drawn.best,
        metavar="N",
        help=f"walks and n-grams that are listed ({drawn.best})",
    )


def _add_text_options(group: Any) -> None:
    group.add_argument(
        "--text-root",
        type=nonempty,
        metavar="DIR",
        help="folder of --text-dataset, with word vectors as in benchmarks.text_classification; "
        "without it molecules alone are explained",
    )
    group.add_argument("--text-dataset", choices=TEXT_DATASETS, help=f"({TEXT_DATASETS[0]})")
    group.add_argument(
        "--text-epochs", type=integer(1), metavar="N", help=f"at most ({_texts().epochs})"
    )
    group.add_argument(
        "--sentences",
        nargs="+",
        type=nonempty,
        metavar="TEXT",
        help="to explain (some of the test part)",
    )


def _texts() -> Texts:
    return Texts(TEXT_DATASETS[0], "")


def _check(options: argparse.Namespace) -> None:
    """Fills in the data set, and refuses options that contradict each other or have no effect."""
    options.dataset = options.dataset or ("csv" if options.csv else "chembl")
    if options.dataset == "csv" and not options.csv:
        raise InputError("--dataset csv needs --csv FILE")
    if options.dataset == "csv" and not options.smarts:
        raise InputError("--dataset csv needs --smarts PATTERN")
    for name in FILE_OPTIONS:
        if options.dataset != "csv" and getattr(options, name):
            flag = name.replace("_", "-")
            raise InputError(f"--{flag} goes with --dataset csv, not {options.dataset}")
    if options.root and options.dataset != "cep":
        raise InputError(f"--root goes with --dataset cep, not {options.dataset}")
    for name in ("text_dataset", "text_epochs", "sentences"):
        if getattr(options, name) and not options.text_root:
            raise InputError(f"--{name.replace('_', '-')} goes with --text-root DIR")
    if options.checkpoint and not Path(options.checkpoint).is_file():
        raise InputError(f"--checkpoint {options.checkpoint}: no such file")
    if options.resume and options.overwrite:
        raise InputError("--resume and --overwrite exclude each other")


def setting_of(options: argparse.Namespace) -> Setting:
    """What the options, checked, ask for."""
    dataset, texts = options.dataset, None
    if options.text_root:
        texts = Texts(
            dataset=options.text_dataset or TEXT_DATASETS[0],
            root=options.text_root,
            epochs=options.text_epochs or _texts().epochs,
        )
    return Setting(
        molecules=Molecules(
            dataset=dataset,
            smarts=options.smarts or SMARTS[dataset],
            root=options.root or CEP_ROOT,
            csv=options.csv,
            smiles_column=options.smiles_column or "smiles",
            target_columns=options.target_columns,
        ),
        network=Network(
            model=options.model,
            hidden=options.hidden,
            layers=options.layers,
            order=options.order,
            norm=options.norm,
            epochs=options.epochs or EPOCHS[dataset],
            batch_size=options.batch_size or BATCH_SIZE[dataset],
            learning_rate=options.lr or LEARNING_RATE[dataset],
        ),
        compared=Compared(options.molecules, options.gnn_epochs, options.ig_steps),
        texts=texts,
        checkpoint=options.checkpoint,
        seed=options.seed,
    )


def _command(options: argparse.Namespace) -> int:
    _check(options)
    with naming_extras("mol,bench"):
        import captum  # noqa: F401

        import pyg_kernels.chem  # noqa: F401
        from benchmarks.harness.devices import torch_device
        from benchmarks.harness.explanations.report import table
        from benchmarks.harness.explanations.study import Study, load
        from benchmarks.harness.molecules.report import describe

        torch_device(options.device)
    setting = setting_of(options)
    drawn = Shown(options.drawn, options.best, options.sentences or [])
    data = load(setting, drawn, progress=shown(options) == "bar")
    study = Study(
        setting=setting,
        shown=drawn,
        methods=list(dict.fromkeys(options.methods)),
        data=data,
        out=Path(options.out or f"runs/explanations-{options.dataset}"),
        device=options.device,
        show=shown(options),
        arguments=options.arguments,
    )
    study.open_folder(options.resume, options.overwrite)
    if not options.quiet:
        say(describe(data.measured))
    results = study.carry_out()
    say(table(results).text())
    if not options.quiet:
        say(f"\npage and pictures in {study.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
