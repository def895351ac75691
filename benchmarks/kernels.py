"""Time, memory and values of the exact kernels beside GraKeL, on molecules.

``python -m benchmarks.kernels --help``. Heavy imports happen after the arguments have been read:
``--help`` and a misspelt option answer at once.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.arguments import (
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
from benchmarks.harness.errors import InputError, as_input_error, naming_extras, say
from benchmarks.harness.kernels.setting import TASKS, Setting

PROGRAM = "benchmarks.kernels"
DATASETS = ("chembl", "cep")
DEFAULT = Setting()
# What GraKeL's random walks need grows with the product of the molecules' sizes, cubed.
WALK_MOLECULES = {"chembl": 10, "cep": 30}
GRAM_SECONDS = {"chembl": 30.0, "cep": 300.0}

EPILOG = """\
wl-gram: the Gram matrix of Weisfeiler-Lehman subtrees, by inner products; wl-min, by minima, which
is optimal assignment; wl-minmax, by the ratio of minima and maxima. sequences: label sequences of
walks without turning back. paths: shortest paths. gp: an exact Gaussian process with the min-max
kernel on --molecules training molecules. accuracy: classification by nested cross-validation on
--sets. wl-features: their counts, as a sparse
matrix, of the whole data set and of its copies with permuted atoms. walk-gram: the Gram matrix of
labelled random walks. regression: ridge regression by random features of the random-walk kernel,
and by its exact Gram matrix on as many molecules as fit.

An atom's label is its element. Both libraries compute each Gram matrix from their own input, and
the largest difference of the values is shown. Without GraKeL (pip install grakel) its rows say so.
Every measurement is made in a process of its own; finished ones are kept for --resume.

OUT holds metrics.json, table.md, scaling.png, regression.png, configuration.json and measurements/.
Exit status: 0 done, 1 a measurement failed, 2 bad input, 130 interrupted.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: The words after the program's name; ``None``: those of this process.

    Returns:
        The exit status: 0 done, 1 a measurement failed, 2 bad input, 130 interrupted.
    """
    return exit_status(PROGRAM, lambda: _study(parser().parse_args(arguments)))


def parser() -> argparse.ArgumentParser:
    """The options."""
    parser = OneLineParser(
        PROGRAM,
        prog=f"python -m {PROGRAM}",
        description="Measures the exact kernels beside GraKeL, and random features beside them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_molecule_options(parser.add_argument_group("molecules"))
    _add_kernel_options(parser.add_argument_group("kernels"))
    _add_regression_options(parser.add_argument_group("regression"))
    measurement = parser.add_argument_group("measurement")
    measurement.add_argument(
        "--rounds",
        type=integer(1),
        default=DEFAULT.rounds,
        metavar="N",
        help=f"calls at most, of which the median counts ({DEFAULT.rounds}; none after 10 seconds)",
    )
    measurement.add_argument(
        "--threads", type=integer(1, 1024), metavar="N", help="of the CPU (all that torch takes)"
    )
    measurement.add_argument("--seed", type=integer(0), default=0, metavar="N", help="(0)")
    add_device_option(measurement)
    add_result_options(parser.add_argument_group("results"), "runs/kernels-DATASET")
    return parser


def _add_molecule_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--dataset",
        choices=DATASETS,
        default=DEFAULT.dataset,
        help="chembl: 1,017 sulfonamides from inside RDKit; cep: 29,978 molecules of the Clean "
        "Energy Project, downloaded (chembl)",
    )
    group.add_argument(
        "--root", type=nonempty, metavar="DIR", help=f"folder of --dataset cep ({DEFAULT.root})"
    )
    group.add_argument(
        "--bond-labels",
        action="store_true",
        help="label bonds by all of their features, which GraKeL's kernels cannot read",
    )


def _add_kernel_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--tasks",
        nargs="+",
        choices=TASKS,
        metavar="NAME",
        help=f"one or more of {', '.join(TASKS)} (all)",
    )
    group.add_argument(
        "--molecules",
        type=integer(1),
        default=DEFAULT.molecules,
        metavar="N",
        help=f"of the WL Gram matrix; all where there are fewer ({DEFAULT.molecules})",
    )
    group.add_argument(
        "--fewer-molecules",
        type=integer(1),
        default=DEFAULT.fewer,
        metavar="N",
        help=f"of the others that GraKeL has too, wl-min and paths ({DEFAULT.fewer})",
    )
    group.add_argument(
        "--sets",
        nargs="+",
        type=nonempty,
        default=list(DEFAULT.sets),
        metavar="SET",
        help="of accuracy: MUTAG, which comes with GraKeL, and FILE:COLUMN with classes beside a "
        "column smiles (MUTAG)",
    )
    group.add_argument(
        "--walk-molecules",
        type=integer(1),
        metavar="N",
        help=f"of the random-walk Gram matrix ({by_dataset(WALK_MOLECULES)})",
    )
    group.add_argument(
        "--iterations",
        type=integer(0, 1000),
        default=DEFAULT.iterations,
        metavar="N",
        help=f"of Weisfeiler-Lehman ({DEFAULT.iterations})",
    )
    group.add_argument(
        "--edges",
        "--p",
        type=integer(1, 1000),
        default=DEFAULT.edges,
        metavar="N",
        help=f"in the longest walks, GraKeL's p ({DEFAULT.edges})",
    )
    group.add_argument(
        "--decay",
        type=number(above=0, below=1),
        default=DEFAULT.decay,
        metavar="X",
        help=f"for each edge of a walk, GraKeL's lamda ({DEFAULT.decay})",
    )
    group.add_argument(
        "--copies",
        nargs="+",
        type=integer(1, 1000),
        default=list(DEFAULT.copies),
        metavar="N",
        help="features of the data set so many times "
        f"({' '.join(str(copies) for copies in DEFAULT.copies)})",
    )


def _add_regression_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--features",
        nargs="+",
        type=integer(1, 100_000),
        default=list(DEFAULT.features),
        metavar="N",
        help="numbers of random features "
        f"({' '.join(str(features) for features in DEFAULT.features)})",
    )
    group.add_argument(
        "--order",
        type=integer(1, 1000),
        default=DEFAULT.order,
        metavar="N",
        help=f"atoms in a walk ({DEFAULT.order})",
    )
    group.add_argument(
        "--gram-seconds",
        type=number(above=0),
        metavar="X",
        help=f"of the largest exact Gram matrix, about ({by_dataset(GRAM_SECONDS)})",
    )
    group.add_argument(
        "--gram-memory",
        type=number(above=0),
        default=DEFAULT.gram_memory,
        metavar="GIB",
        help=f"of the same ({DEFAULT.gram_memory:g})",
    )


def _study(options: argparse.Namespace) -> int:
    if options.resume and options.overwrite:
        raise InputError("--resume and --overwrite exclude each other")
    if options.root and options.dataset != "cep":
        raise InputError(f"--root goes with --dataset cep, not {options.dataset}")
    with naming_extras("mol,bench"):
        import pyg_kernels.chem  # noqa: F401
        from benchmarks.harness.devices import torch_device
        from benchmarks.harness.kernels.libraries import load, parts_of
        from benchmarks.harness.kernels.report import study_tables, write_study_report
        from benchmarks.harness.kernels.study import Study
    setting = Setting(
        dataset=options.dataset,
        root=str(Path(options.root or DEFAULT.root).resolve()),
        molecules=options.molecules,
        fewer=options.fewer_molecules,
        sets=tuple(dict.fromkeys(options.sets)),
        iterations=options.iterations,
        walk_molecules=options.walk_molecules or WALK_MOLECULES[options.dataset],
        edges=options.edges,
        decay=options.decay,
        bond_labels=options.bond_labels,
        copies=tuple(dict.fromkeys(options.copies)),
        features=tuple(dict.fromkeys(options.features)),
        order=options.order,
        gram_seconds=options.gram_seconds or GRAM_SECONDS[options.dataset],
        gram_memory=options.gram_memory,
        seed=options.seed,
        device=str(torch_device(options.device)),
        threads=options.threads,
        rounds=options.rounds,
    )
    with as_input_error():
        molecules = load(setting)
    total = len(molecules)
    train = len(parts_of(total)["train"])
    chosen = set(options.tasks or TASKS)
    tasks = tuple(task for task in TASKS if task in chosen)
    out = Path(options.out or f"runs/kernels-{setting.dataset}")
    study = Study(setting, tasks, total, train, out)
    study.open_folder(options.resume, options.overwrite)
    results = study.run(shown(options))
    tables = study_tables(results, setting, total)
    say("\n\n".join(table.text() for table in tables))
    with as_input_error():
        write_study_report(study.out, results, setting, total)
    if not options.quiet:
        say(f"\nresults in {study.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
