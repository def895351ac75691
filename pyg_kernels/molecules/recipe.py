"""What ``model='auto'`` stands for, by the task, the number of molecules and their weights."""

from __future__ import annotations

from typing import Any

from pyg_kernels.kernels.gp import DOUBLE_UP_TO
from pyg_kernels.molecules.methods import Task

AUTO = "auto"
NETWORKS_FROM = 4_000  # molecules; with fewer, a process is better than networks in regression
LARGE_FROM = 10_000  # from here, networks need fewer epochs and are far better than a process
MEMBERS_OF_LARGE = 2  # of each network, in regression
PROCESS_BYTES = 8e9  # at most, of Gram matrix, factors and trees
TREE_BYTES = 14e3  # of trees, per molecule and target
NETWORKS_OF_AUTO = ("wl", "graph-kernel")


def recipe(task: Task, number: int, weighted: bool) -> tuple[list[str], int, dict[str, Any]]:
    """Chooses models, the least number of members of each, and defaults for training networks.

    Below `LARGE_FROM` molecules, without weights and if memory suffices: a process, in regression
    pooled with trees. Networks join it, except in regression below `NETWORKS_FROM`, where a stack
    was no better on MoleculeACE. Without a process there are networks and, below `NETWORKS_FROM`, a
    forest. From `LARGE_FROM` on networks train for fewer epochs, in regression two of each.

    Args:
        task: What is learned.
        number: The number of molecules, including those that are held out.
        weighted: Whether molecules have weights, which Gaussian processes do not take.

    Returns:
        Names of models, the least number of members of each, and fields of
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
