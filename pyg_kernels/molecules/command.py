"""The command ``pyg-kernels``: its words, errors in one line, exit statuses.

Nothing here imports torch or pandas: ``--help`` and a misspelt option answer at once.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn

PROGRAM = "pyg-kernels"
METRICS = ("rmse", "mae", "r2", "spearman", "coverage", "roc-auc", "pr-auc", "log-loss")
TRUST = "import the modules of networks that a run names"
# The others are in runs.
MODULES = {"tune": "tuning", "export": "onnx", "predict": "streaming", "embed": "streaming"}
EXPECTED = (ValueError, OSError, ImportError)
# Torch says that there is no CUDA, or no memory on it, by AssertionError and RuntimeError; data
# that do not fit a network of the user's own raise the others.
POSSIBLE = (AssertionError, RuntimeError, MemoryError, TypeError, LookupError)
EPILOG = """\
  pyg-kernels example molecules.csv
  pyg-kernels train molecules.csv --target-columns potency --split scaffold --out run
  pyg-kernels predict run new.csv --out predictions.csv
  pyg-kernels explain run new.csv --out explained
  pyg-kernels tune molecules.csv --target-columns potency --model wl --trials 30 --out search

Each command has a --help of its own. Exit status: 0 done, 2 bad input, 130 interrupted.
"""


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Exits with status 2 after one line."""
        self.exit(2, f"{self.prog}: error: {message}\n")


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        words: The words after the program's name; None: those of this process.

    Returns:
        The exit status: 0 done, 2 bad input, 130 interrupted.
    """
    try:
        options = parser().parse_args(_with_config(sys.argv[1:] if words is None else [*words]))
    except EXPECTED as error:
        print(f"{PROGRAM}: error: {_one_line(error)}", file=sys.stderr)
        return 2
    name = f"{PROGRAM} {options.command}"

    def say(text: str) -> None:
        """One line on standard error, which leaves standard output to tables."""
        print(f"{name}: {text}", file=sys.stderr, flush=True)

    logger, handler = logging.getLogger("pyg_kernels.molecules"), logging.Handler()
    handler.emit = lambda record: say(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        runs = ", ".join(getattr(options, "runs", []))
        say(options.begins.format(**{**vars(options), "runs": runs}))
        if options.threads:
            _use_threads(options.threads)
        _command(options.command)(options, say)
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except (*EXPECTED, *POSSIBLE) as error:
        if options.traceback:
            raise
        say(f"error: {_one_line(error)}")
        return 2
    finally:
        logger.removeHandler(handler)
    return 0


def _with_config(words: list[str]) -> list[str]:
    """The words, and after the command those of a file ``--config``, which the others override.

    Raises:
        ValueError: If the file is no mapping from options to their values.
    """
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--config")
    path = finder.parse_known_args(words)[0].config
    if path is None:
        return words
    import yaml

    try:
        with open(path, encoding="utf-8") as file:
            content = yaml.safe_load(file)  # JSON is YAML
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a line 'option: value' for each option")
    added = []
    for name, value in content.items():
        option = "--" + str(name).replace("_", "-")
        if isinstance(value, list):
            added += [option, *map(str, value)]
        elif value is not None and value is not False:
            added.append(option if value is True else f"{option}={value}")
    # An option of one value comes last, so that no list takes up what follows it.
    return [words[0], *added, f"--config={path}", *words[1:]]


def _command(name: str) -> Callable[[argparse.Namespace, Callable[[str], None]], None]:
    module = import_module(f"pyg_kernels.molecules.{MODULES.get(name, 'runs')}")
    found: Callable[[argparse.Namespace, Callable[[str], None]], None] = getattr(module, name)
    return found


def _use_threads(number: int) -> None:
    for library in ("OMP", "MKL", "OPENBLAS"):  # read when the library loads
        os.environ[f"{library}_NUM_THREADS"] = str(number)
    import torch

    torch.set_num_threads(number)


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    text = " ".join(str(error).split())
    if isinstance(error, EXPECTED):
        return text or type(error).__name__
    return f"{type(error).__name__}: {text} (--traceback shows where)"


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    made = OneLineParser(
        PROGRAM,
        description="Learns properties of molecules from a table, predicts and explains them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, purpose: str, begins: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=purpose, description=purpose, allow_abbrev=False)
        added.set_defaults(begins=begins)
        added.add_argument("--overwrite", action="store_true", help="replace what lies in --out")
        added.add_argument("--threads", type=_count, metavar="N", help="of the CPU (all)")
        added.add_argument(
            "--config", metavar="FILE", help="YAML or JSON with options, which others override"
        )
        added.add_argument("--traceback", action="store_true", help="show where an error arose")
        return added

    train = command("train", "train models on a table and score them", "reading {data} ...")
    _add_train(train)
    train.add_argument(
        "--start-from", metavar="RUN", help="networks start with the weights of those of a run"
    )
    train.add_argument("--freeze", action="store_true", help="then train their heads alone")
    train.add_argument("--trust", action="store_true", help=TRUST)
    purpose = "search for the options of a model that are best on the validation part"
    tune = command("tune", purpose, "reading {data} ...")
    _add_train(tune)
    tune.add_argument(
        "--trials", type=_count, default=30, metavar="N", help="of all that share --out (30)"
    )
    reads = "loading {runs}, then reading {data} ..."
    predict = command("predict", "predict the molecules of a table, or a folder of tables", reads)
    predict.add_argument("runs", nargs="+", metavar="RUN", help="several are averaged")
    _add_new(predict, "FILE")
    predict.add_argument(
        "--coverage", type=_fraction, default=0.9, metavar="C",
        help="the share of measurements that the intervals low to high contain (0.9)",
    )  # fmt: skip
    predict.add_argument(
        "--far", type=_similarity, metavar="S",
        help="warn of molecules less similar to their nearest training molecule (less than 95 %% "
        "of those are to one another; 0: of none, without the column similarity)",
    )  # fmt: skip
    _add_streams(predict)
    explain = command("explain", "show which atoms and walks a prediction is made of", reads)
    explain.add_argument("runs", nargs=1, metavar="RUN")
    _add_new(explain, "DIR")
    explain.add_argument("--walks", type=_count, default=5, metavar="K", help="a molecule (5)")
    explain.add_argument("--limit", type=_count, default=20, metavar="N", help="molecules (20)")
    explain.add_argument("--target", metavar="NAME", help="which target or class (the first)")
    embed = command("embed", "write the vectors of the molecules of a table, or a folder", reads)
    embed.add_argument("runs", nargs=1, metavar="RUN")
    _add_new(embed, "FILE")
    _add_streams(embed)
    export = command("export", "write the networks of a run as ONNX", "loading {runs} ...")
    export.add_argument("runs", nargs=1, metavar="RUN")
    export.add_argument("out", metavar="FILE.onnx")
    export.add_argument("--trust", action="store_true", help=TRUST)
    report = command("report", "print one table of all runs below a folder", "searching {data} ...")
    report.add_argument("data", metavar="DIR")
    report.add_argument("--out", metavar="FILE", help="write the table, too")
    purpose = "write a table to try: potencies of 1,017 sulfonamides, which ship with RDKit"
    example = command("example", purpose, "writing {out} ...")
    example.add_argument("out", metavar="FILE")
    return made


def _add_train(train: argparse.ArgumentParser) -> None:
    train.add_argument("data", metavar="DATA", help="CSV, CSV.gz or Parquet")
    train.add_argument("--target-columns", nargs="+", required=True, metavar="COLUMN")
    train.add_argument("--out", required=True, metavar="RUN", help="folder of the results")
    train.add_argument("--resume", action="store_true", help="go on with what was interrupted")
    table = train.add_argument_group("table")
    _add_columns(table)
    table.add_argument(
        "--standardize", action="store_true", help="clean up, largest fragment, neutral; listed"
    )
    table.add_argument(
        "--merge-duplicates", choices=("mean",), help="of measurements of the same molecule"
    )
    table.add_argument("--extra-columns", nargs="+", default=[], metavar="COLUMN", help="numbers")
    table.add_argument("--weight-column", metavar="COLUMN", help="weights of the rows")
    table.add_argument(
        "--groups-column", metavar="COLUMN", help="rows of a group stay in one part of the split"
    )
    table.add_argument(
        "--split-column", metavar="COLUMN", help="train, valid or test; with --split column"
    )
    model = train.add_argument_group("model")
    model.add_argument(
        "--model", nargs="+", default=["gp"], metavar="NAME",
        help="gp, wl-gp, wl-ridge, wl-forest, random-walk-gp, mean, wl, wl-gated, graph-kernel, "
        "random-walk, gated-walk, gin, gine, attentive-fp, neural-fingerprint, "
        "embedded-mean-field, embedded-loopy-bp, or package.module:Net; several are stacked (gp)",
    )  # fmt: skip
    model.add_argument("--task", choices=("regression", "classification"), help="(by the targets)")
    model.add_argument("--ensemble-size", type=_count, default=1, metavar="N", help="(1)")
    model.add_argument("--epochs", type=_count, metavar="N", help="of networks, at most (60)")
    model.add_argument("--featurizer", default="default", help="default, duvenaud or ogb")
    model.add_argument("--batch-size", type=_count, metavar="N", help="molecules a step (64)")
    model.add_argument("--learning-rate", type=_positive, metavar="R", help="the highest (0.001)")
    model.add_argument(
        "--patience", type=_count, metavar="N",
        help="epochs without a lower validation loss that end training (a third, at least 10)",
    )  # fmt: skip
    model.add_argument("--hidden-channels", type=_count, metavar="N", help="the width of networks")
    model.add_argument(
        "--num-layers", type=_count, metavar="N", help="of networks; iterations of wl-... methods"
    )
    model.add_argument("--dropout", type=_share, metavar="P", help="in networks (0)")
    model.add_argument("--device", help="cpu, cuda, ... (CUDA where there is one)")
    model.add_argument("--seed", type=_natural, default=0, metavar="N", help="(0)")
    score = train.add_argument_group("scores")
    score.add_argument("--split", choices=("random", "scaffold", "column"), default="random")
    score.add_argument(
        "--fractions", nargs=3, type=_fraction, default=(0.8, 0.1, 0.1), metavar="F",
        help="of training, validation and test (0.8 0.1 0.1)",
    )  # fmt: skip
    score.add_argument("--folds", type=_folds, metavar="K", help="cross-validate")
    score.add_argument("--repeats", type=_count, default=1, metavar="R", help="splits (1)")
    score.add_argument("--metric", nargs="+", choices=METRICS, help="which to print (all)")


def _add_new(added: argparse.ArgumentParser, out: str) -> None:
    added.add_argument("data", metavar="NEW", help="CSV, CSV.gz or Parquet")
    added.add_argument("--out", required=True, metavar=out)
    added.add_argument("--trust", action="store_true", help=TRUST)
    _add_columns(added)


def _add_streams(added: argparse.ArgumentParser) -> None:
    added.add_argument(
        "--resume", action="store_true", help="keep the files of --out that are there already"
    )
    added.add_argument(
        "--ray", metavar="ADDRESS", help="of a cluster of Ray, or local: run on its workers"
    )


def _add_columns(added: Any) -> None:
    added.add_argument("--smiles-column", metavar="COLUMN", help="(the one called smiles)")
    added.add_argument("--encoding", default="utf-8", help="of a CSV (utf-8)")
    added.add_argument("--skip-invalid", action="store_true", help="go on without invalid SMILES")


def _number(kind: Callable[[str], Any], fits: Callable[[Any], bool], expected: str) -> Any:
    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not fits(value):
            raise argparse.ArgumentTypeError(f"{text!r}: expected {expected}")
        return value

    return read


_natural = _number(int, lambda n: 0 <= n < 2**31, "a whole number of at least 0")
_count = _number(int, lambda n: n >= 1, "a whole number of at least 1")
_folds = _number(int, lambda n: n >= 2, "a whole number of at least 2")
_fraction = _number(float, lambda x: 0 < x < 1, "a number between 0 and 1")
_positive = _number(float, lambda x: 0 < x < math.inf, "a number above 0")
_share = _number(float, lambda x: 0 <= x < 1, "a number of at least 0 and below 1")
_similarity = _number(float, lambda x: 0 <= x <= 1, "a number from 0 to 1")


if __name__ == "__main__":
    sys.exit(main())
