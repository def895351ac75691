"""What ``model='auto'`` stands for: the task and the number of molecules alone decide."""

from __future__ import annotations

from typing import Any

from pyg_kernels.kernels.gp import DOUBLE_UP_TO
from pyg_kernels.molecules.methods import Task

AUTO = "auto"
NETWORKS_FROM = 4_000  # molecules; below, a process is ahead of networks in regression
LARGE_FROM = 10_000  # networks need fewer epochs, and are far ahead of a process
MEMBERS_OF_LARGE = 2  # of each network, of numbers to learn
PROCESS_BYTES = 8e9  # of Gram matrix, factors and trees
TREE_BYTES = 14e3  # of trees, for a molecule and target
NETWORKS_OF_AUTO = ("wl", "graph-kernel")


def recipe(task: Task, number: int, weighted: bool) -> tuple[list[str], int, dict[str, Any]]:
    """The models, members of each at least, and how networks are trained where it is not given.

    A process where it fits and molecules are few, in regression pooled with trees, and without
    networks below `NETWORKS_FROM`, where a stack was no better on MoleculeACE; the networks
    otherwise, trained for fewer epochs on many molecules, and two of each in regression; a forest
    beside them on few molecules without a process.

    Args:
        task: What is learned.
        number: Of molecules, those that are held out included.
        weighted: Whether molecules have weights, which Gaussian processes do not take.

    Returns:
        Names of models, how many members each has at least, and fields of
        :class:`~pyg_kernels.molecules.training.TrainingOptions`.
    """
    regression = task.kind == "regression"
    factors = task.num_outputs * (2 if task.kind == "binary" else 1)
    size = 8 if number <= DOUBLE_UP_TO else 4
    needed = size * number**2 * (1 + factors) + TREE_BYTES * number * regression * task.num_outputs
    fits = needed <= PROCESS_BYTES
    process, small = number < LARGE_FROM and fits and not weighted, number < NETWORKS_FROM
    models = ["wl-forest"] if small else []
    if process:
        models = ["pooled" if regression else "gp"]
    if not (process and small and regression):
        models += NETWORKS_OF_AUTO
    if number < LARGE_FROM:
        return models, 1, {}
    large = {"epochs": 25, "batch_size": 128, "learning_rate": 5e-3}
    return models, MEMBERS_OF_LARGE if regression else 1, large
