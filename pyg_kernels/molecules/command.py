"""The command ``pyg-kernels``: its arguments, one-line errors and exit statuses.

Its import loads neither torch nor pandas: ``--help`` and misspelt options answer at once.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn

PROGRAM = "pyg-kernels"
METRICS = {
    "regression": ("rmse", "mae", "r2", "spearman", "coverage"),
    "classification": ("roc-auc", "pr-auc", "log-loss"),
}
LOGGER = logging.getLogger("pyg_kernels.molecules")
say = LOGGER.info  # a line on standard error, which leaves standard output to tables
# The modules of commands; those that are not listed are in runs.
MODULES = {"tune": "tuning", "export": "onnx", "predict": "streaming", "embed": "streaming"}
EXPECTED = (ValueError, OSError, ImportError)
# Torch raises AssertionError or RuntimeError if there is no CUDA, or no memory on it; data that do
# not fit a user's own network raise the others.
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
    """Runs the command line."""
    words = sys.argv[1:] if words is None else [*words]
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(f"{PROGRAM}: %(message)s"))
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    propagated, LOGGER.propagate = LOGGER.propagate, False  # another handler would repeat them
    try:
        words = _with_config(words)
        options = parser().parse_args(words)
        name = options.command
        handler.setFormatter(logging.Formatter(f"{PROGRAM} {name}: %(message)s"))
        runs = ", ".join(getattr(options, "runs", []))
        say(options.begins.format(**{**vars(options), "runs": runs}))
        if options.threads:
            for library in ("OMP", "MKL", "OPENBLAS"):  # read when the library loads
                os.environ[f"{library}_NUM_THREADS"] = str(options.threads)
            import_module("torch").set_num_threads(options.threads)
        if os.getcwd() not in sys.path:  # to import users' own networks
            sys.path.append(os.getcwd())
        module = import_module(f"pyg_kernels.molecules.{MODULES.get(name, 'runs')}")
        getattr(module, name)(options)
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except (*EXPECTED, *POSSIBLE) as error:
        if "--traceback" in words:
            raise
        say(f"error: {_one_line(error)}")
        return 2
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.propagate = propagated
    return 0


def _with_config(words: list[str]) -> list[str]:
    """The words, with those of ``--config`` after the command; the given words override them."""
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
    # --config comes last, as an option of one value, so that no list takes up the words after it.
    return [words[0], *added, f"--config={path}", *words[1:]]


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
        added.add_argument("--overwrite", action="store_true", help="replace what is in --out")
        added.add_argument("--threads", type=_count, metavar="N", help="CPU threads (all)")
        added.add_argument("--config", metavar="FILE", help="read options from YAML or JSON")
        added.add_argument("--traceback", action="store_true", help="show where an error arose")
        return added

    train = command("train", "train models on a table and score them", "reading {data} ...")
    _add_train(train)
    train.add_argument("--start-from", metavar="RUN", help="fine-tune this run's networks")
    train.add_argument("--freeze", action="store_true", help="with --start-from, train heads alone")
    _add_trust(train)
    purpose = "search for the options with which a model is best on the validation part"
    tune = command("tune", purpose, "reading {data} ...")
    _add_train(tune)
    tune.add_argument("--trials", type=_count, default=30, help="in all calls on --out (30)")
    reads = "loading {runs}, then reading {data} ..."
    predict = command("predict", "predict the molecules of a table, or a folder of tables", reads)
    _add_new(predict, "FILE", runs="+")
    predict.add_argument("--coverage", type=_fraction, default=0.9, help="of intervals (0.9)")
    far = "warn if the nearest training molecule is less similar than this; 0 leaves out warning "
    far += "and column (what 95 %% of the training molecules reach among one another)"
    predict.add_argument("--far", type=_similarity, metavar="SIMILARITY", help=far)
    _add_streams(predict)
    purpose = "show what atoms, and the walks that matter most, add to a prediction"
    explain = command("explain", purpose, reads)
    _add_new(explain, "DIR")
    explain.add_argument("--walks", type=_count, default=5, metavar="K", help="per molecule (5)")
    explain.add_argument("--limit", type=_count, default=20, metavar="N", help="molecules (20)")
    explain.add_argument("--target", metavar="NAME", help="or one of 3 or more classes (first)")
    embed = command("embed", "write the vectors of the molecules of a table, or a folder", reads)
    _add_new(embed, "FILE")
    _add_streams(embed)
    export = command("export", "write the networks of a run as ONNX", "loading {runs} ...")
    export.add_argument("runs", nargs=1, metavar="RUN")
    export.add_argument("out", metavar="FILE.onnx")
    _add_trust(export)
    report = command("report", "print one table of all runs below a folder", "searching {data} ...")
    report.add_argument("data", metavar="DIR")
    report.add_argument("--out", metavar="FILE", help="also write the table here")
    purpose = "write a table to try: potencies of 1,017 sulfonamides, which ship with RDKit"
    example = command("example", purpose, "writing {out} ...")
    example.add_argument("out", metavar="FILE")
    return made


def _add_train(train: argparse.ArgumentParser) -> None:
    add = train.add_argument
    add("data", metavar="DATA", help="CSV, CSV.gz or Parquet")
    add("--target-columns", nargs="+", required=True, metavar="COLUMN", help="columns to learn")
    add("--out", required=True, metavar="RUN", help="folder for the results")
    add("--resume", action="store_true", help="continue an interrupted run")
    add = train.add_argument_group("table").add_argument
    _add_columns(add)
    add("--standardize", action="store_true", help="clean up, largest fragment, neutral; listed")
    add("--merge-duplicates", choices=("mean",), help="of rows of the same molecule")
    add("--extra-columns", nargs="+", default=[], metavar="COLUMN", help="more inputs: numbers")
    add("--weight-column", metavar="COLUMN", help="weights of the rows")
    add("--groups-column", metavar="COLUMN", help="rows of one group stay in one part")
    add("--split-column", metavar="COLUMN", help="train, valid or test; with --split column")
    add = train.add_argument_group("model").add_argument
    models = "auto chooses by the task and the number of molecules; processes and other kernel "
    models += "methods: gp, pooled, wl-gp, random-walk-gp, wl-ridge, wl-forest; the mean: mean; "
    models += "networks: wl, wl-gated, graph-kernel, random-walk, gated-walk, gin, gine, "
    models += "attentive-fp, neural-fingerprint, embedded-mean-field, embedded-loopy-bp, or your "
    models += "own, package.module:Net; several are stacked (auto)"
    add("--model", nargs="+", default=["auto"], metavar="NAME", help=models)
    add("--task", choices=tuple(METRICS), help="(classes if targets are words)")
    add("--ensemble-size", type=int, default=1, metavar="N", help="members of each model (1)")
    add("--epochs", type=int, metavar="N", help="of networks, at most (60, auto: 25 or 60)")
    add("--featurizer", default="default", help="features: default, duvenaud, ogb")
    add("--batch-size", type=int, metavar="N", help="molecules per batch (64, auto: 64 or 128)")
    rate = "of networks, at the peak (0.001, auto: 0.001 or 0.005)"
    add("--learning-rate", type=float, metavar="R", help=rate)
    patience = "stop after N epochs without a lower validation loss (a third, at least 10)"
    add("--patience", type=int, metavar="N", help=patience)
    add("--hidden-channels", type=int, metavar="N", help="width (for 260,000 parameters)")
    add("--num-layers", type=int, metavar="N", help="depth; iterations or walk of kernel methods")
    add("--dropout", type=float, metavar="P", help="in networks (0)")
    only = "do not learn a target that often has one value as two targets"
    add("--no-hurdle", action="store_true", help=only)
    taught = "replace all models by one network that learns their predictions for N analogues of "
    taught += "each molecule (0: keep them)"
    add("--distill", type=_amount, metavar="N", help=taught)
    add("--device", help="cpu, cuda, ... (CUDA if available)")
    add("--seed", type=_seed, default=0, metavar="N", help="seed of random numbers (0)")
    add = train.add_argument_group("scores").add_argument
    how = "at random, by Bemis-Murcko scaffold, or by --split-column (random)"
    add("--split", choices=("random", "scaffold", "column"), default="random", help=how)
    fractions = "shares of the training, validation and test parts (0.8 0.1 0.1)"
    add("--fractions", nargs=3, type=float, default=(0.8, 0.1, 0.1), metavar="F", help=fractions)
    add("--folds", type=_folds, metavar="K", help="cross-validate in K folds")
    add("--repeats", type=_count, default=1, metavar="R", help="repeat with other splits (1)")
    every = [metric for metrics in METRICS.values() for metric in metrics]
    shown = f"scores to print, in tune the one to search by: {', '.join(every)}"
    add("--metric", nargs="+", choices=every, metavar="METRIC", help=shown)


def _add_new(added: argparse.ArgumentParser, out: str, runs: Any = 1) -> None:
    several = "folder of a run" + (", several are averaged" if runs == "+" else "")
    added.add_argument("runs", nargs=runs, metavar="RUN", help=several)
    added.add_argument("data", metavar="NEW", help="CSV, CSV.gz or Parquet")
    added.add_argument("--out", required=True, metavar=out, help="where to write")
    _add_trust(added)
    _add_columns(added.add_argument)


def _add_trust(added: argparse.ArgumentParser) -> None:
    imports = "import your own networks, which runs code of the modules that a run names"
    added.add_argument("--trust", action="store_true", help=imports)


def _add_streams(added: argparse.ArgumentParser) -> None:
    added.add_argument("--resume", action="store_true", help="keep finished files in --out")
    address = "run on the workers of this Ray cluster, or of a local one: local"
    added.add_argument("--ray", metavar="ADDRESS", help=address)


def _add_columns(add: Callable[..., Any]) -> None:
    add("--smiles-column", metavar="COLUMN", help="column of SMILES (smiles)")
    add("--encoding", default="utf-8", help="of CSV files (utf-8)")
    add("--skip-invalid", action="store_true", help="do not stop at invalid SMILES")


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


_count = _number(int, lambda n: n >= 1, "a whole number of at least 1")
_seed = _number(int, lambda n: 0 <= n < 2**31, "a whole number of at least 0, below 2**31")
_folds = _number(int, lambda n: n >= 2, "a whole number of at least 2")
_fraction = _number(float, lambda x: 0 < x < 1, "a number between 0 and 1")
_amount = _number(float, lambda x: 0 <= x <= 1000, "a number from 0 to 1000")
_similarity = _number(float, lambda x: 0 <= x <= 1, "a number from 0 to 1")


if __name__ == "__main__":
    sys.exit(main())
