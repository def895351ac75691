"""A rival from another package: Chemprop's network, trained by Chemprop's own command.

This is ``--model chemprop`` of ``benchmarks.molecules``. The command must be in this environment or
in another one on the path. Chemprop's defaults are used, with the comparison's parts and seed.
"""

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyg_kernels.molecules.methods import Examples, KernelMethod, Outputs, certain

LINES = 3  # of Chemprop's output that an error quotes


class ChempropMethod(KernelMethod):
    """``chemprop``: a directed message-passing network (Heid et al. 2024)."""

    learned = ("seed", "rows", "checkpoint")
    checkpoint: NDArray[np.uint8]  # the bytes of Chemprop's file

    def learn(self, examples: Examples) -> None:
        """Trains on the training part, and chooses the epoch on the validation part."""
        y = examples.y
        targets = [f"y{place}" for place in range(y.shape[1])]
        table = pd.DataFrame(y, columns=targets)
        table.insert(0, "smiles", examples.molecules.smiles)
        table["part"] = ""
        table.loc[examples.train, "part"] = "train"
        table.loc[examples.valid, "part"] = "val"
        kind = "regression" if self.is_regression else "classification"
        with TemporaryDirectory() as folder:
            data, out = Path(folder, "data.csv"), Path(folder, "out")
            table[table["part"] != ""].to_csv(data, index=False)
            words: list[Any] = ["--splits-column", "part", "--target-columns", *targets]
            words += ["--task-type", kind, "--pytorch-seed", self.seed, "--remove-checkpoints"]
            _run("train", data, "--output-dir", out, *words)
            self.checkpoint = np.frombuffer((out / "model_0" / "best.pt").read_bytes(), np.uint8)

    def condition(self, y: Any, weight: Any) -> None:
        """Does nothing, since nothing is left to fit."""

    def outputs(self, molecules: Any) -> Outputs:
        """What Chemprop predicts: numbers, or the probabilities of classes."""
        with TemporaryDirectory() as folder:
            data, model, out = (Path(folder, name) for name in ("data.csv", "best.pt", "out.csv"))
            pd.DataFrame({"smiles": molecules.smiles}).to_csv(data, index=False)
            model.write_bytes(self.checkpoint.tobytes())
            _run("predict", data, "--model-path", model, "--output", out)
            found = pd.read_csv(out).drop(columns="smiles").to_numpy(np.float64)
        if not self.is_regression:
            return certain(found)
        return Outputs(found, np.broadcast_to(getattr(self, "noise", 0.0), found.shape))


def command() -> str:
    """The path of Chemprop's command; raises a ``ValueError`` if it is not found."""
    found = shutil.which("chemprop")
    if found is None:
        raise ValueError(
            '--model chemprop: the command chemprop is not found; pip install "chemprop==2.3.*" in '
            "this environment, or in another one whose folder of commands is on the path"
        )
    return found


def _run(task: str, data: Path, *words: Any) -> None:
    given = [command(), task, "-i", data, "--smiles-columns", "smiles", *words]
    usual = ["--accelerator", "cpu", "-q"]
    done = subprocess.run([*map(str, (*given, *usual))], capture_output=True, text=True)
    if done.returncode:
        said = "; ".join((done.stderr or done.stdout).strip().splitlines()[-LINES:])
        raise ValueError(f"chemprop {task} ended with status {done.returncode}: {said}")
