"""What ``test_processes`` runs in one process and in several: small experiments in a folder.

``torchrun ... -m tests.benchmarks.harness.in_processes FOLDER`` leaves their results in FOLDER and
ends with an input error that the last process alone has met.
"""

import random
import shutil
import sys
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness.collective import in_all, in_first
from benchmarks.harness.errors import InputError, exit_status
from benchmarks.harness.experiment import Experiment, Report
from benchmarks.harness.options import parse
from benchmarks.harness.processes import processes
from benchmarks.harness.progress import EpochHistory
from benchmarks.harness.text.data import load_texts
from benchmarks.harness.text.task import TextTask, text_model_configs
from benchmarks.molecules.__main__ import COMPARE
from benchmarks.text_classification import TextClassification

PIECES = ("C", "N", "O", "CC", "CO", "c1ccccc1", "C1CC1", "F", "C=C", "C#N")
SIZES = {"train": 34, "valid": 5, "test": 4}  # in batches of 4: the last ones have 2, 1 and 4
INTERRUPTED = 2  # epochs before
WRONG = "the last process has met an error"


def write_molecules(folder: Path) -> None:
    """43 molecules with two targets, some of them missing."""
    draw = random.Random(0)
    rows = ["smiles,a,b,part"]
    for part, size in SIZES.items():
        for k in range(size):
            smiles = "".join(draw.choices(PIECES[:7], k=draw.randint(1, 4))) + draw.choice(PIECES)
            a = f"{len(smiles) + draw.gauss():.3f}" if k == 0 or draw.random() < 0.8 else ""
            b = f"{10 * draw.gauss():.3f}" if k == 0 or draw.random() < 0.6 else ""
            rows.append(f"{smiles},{a},{b},{part}")
    (folder / "molecules.csv").write_text("\n".join(rows) + "\n")


def write_texts(folder: Path) -> None:
    """Texts of two classes that differ in a word."""
    draw = random.Random(0)
    rows = []
    for k in range(45):
        words = [f"w{draw.randrange(9)}" for _ in range(draw.randint(1, 5))]
        rows.append(f"{1 + k % 2},{' '.join([*words, ('how', 'who')[k % 2]])}")
    (folder / "texts.csv").write_text("\n".join(rows) + "\n")


def text_experiment(options: TextClassification, out: Path) -> Experiment:
    """The experiment of some options in a folder."""
    texts = load_texts(options)
    return Experiment("texts", options, out, TextTask(texts), text_model_configs(options, texts))


def experiment(folder: Path, name: str, resume: bool = False) -> Experiment:
    """Four epochs on the texts of a folder, in a folder of this name."""
    options = TextClassification(
        data=(str(folder / "texts.csv"),),
        vectors="none",
        models=("rcnn",),
        hidden=6,
        dropout=0.0,
        embedding=5,
        epochs=4,
        batch_size=16,
        patience=4,
        lr=0.02,
        schedule="plateau",
        device="cpu",
        precision="32-true",
        quiet=True,
        resume=resume,
    )
    return text_experiment(options, folder / name)


def molecules(folder: Path, name: str, *words: str) -> None:
    """Compares models on the molecules of a folder."""
    sizes = ("--hidden", "8", "--layers", "2", "--epochs", "4", "--batch-size", "4", "--lr", "0.02")
    data = ("--data", str(folder / "molecules.csv"), "--split-column", "part")
    options = (
        "--target-columns",
        "a",
        "b",
        "--device",
        "cpu",
        "--quiet",
        "--out",
        str(folder / name),
    )
    COMPARE.carry_out(parse("in_processes", COMPARE, [*data, *options, *sizes, *words]))


def carry_out(folder: Path) -> None:
    """Carries out the experiments, one of them in two halves; the first is kept as ``half``."""
    molecules(folder, "molecules", "--norm", "none", "--model", "wl-gated", "mean", "wl-subtree-3")
    molecules(folder, "normalized", "--model", "gine", "--dropout", "0.5")
    for name in ("texts", "interrupted"):
        each = experiment(folder, name)
        each.check()
        each.open()
        if name == "interrupted":
            _interrupt(each)
            in_first(lambda each=each: shutil.copytree(each.out, folder / "half"))  # type: ignore[misc]
            each = experiment(folder, name, resume=True)
            each.open()
        each.finish(each.run(), lambda runs: Report([]))


def _interrupt(experiment: Experiment) -> None:
    original = EpochHistory.on_train_epoch_start

    def interrupt(history: EpochHistory, trainer: Any, module: Any) -> None:
        if trainer.current_epoch == INTERRUPTED:
            raise KeyboardInterrupt
        original(history, trainer, module)

    EpochHistory.on_train_epoch_start = interrupt  # type: ignore[method-assign]
    try:
        experiment.run()
    except KeyboardInterrupt:
        EpochHistory.on_train_epoch_start = original  # type: ignore[method-assign]


def main() -> int:
    """Carries out the experiments and then meets an error in the last process."""
    carry_out(Path(sys.argv[1]))

    def fail() -> None:
        if processes().rank == processes().number - 1:
            raise InputError(WRONG)

    in_all(fail)
    return 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(exit_status("in_processes", main, several=True))
