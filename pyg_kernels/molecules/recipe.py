"""What ``model='auto'`` stands for: the task and the number of molecules alone decide."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyg_kernels.kernels.gp import DOUBLE_UP_TO
from pyg_kernels.molecules.methods import Task

AUTO = "auto"
NETWORKS_FROM = 4_000  # molecules; below, a process is ahead of networks in regression
LARGE_FROM = 10_000  # networks need fewer epochs, and are far ahead of a process
DISTILLED_TO = 50_000  # analogues teach less where there are many molecules, and take longer
ANALOGUES = 4.0  # for each molecule
TEACHERS = 2  # members of each model
PROCESS_BYTES = 8e9  # of Gram matrix, factors and trees
TREE_BYTES = 14e3  # of trees, for a molecule and target
NETWORKS_OF_AUTO = ("wl", "graph-kernel")


class Recipe(NamedTuple):
    """What ``'auto'`` is.

    Attributes:
        models: Names of models.
        training: How networks are trained where it is not given, fields of
            :class:`~pyg_kernels.molecules.training.TrainingOptions`.
        distill: That of the estimator, where it is not given.
        ensemble_size: The least that the estimator then has.
    """

    models: list[str]
    training: dict[str, Any]
    distill: float = 0.0
    ensemble_size: int = 1


def recipe(task: Task, number: int, weighted: bool) -> Recipe:
    """The models for a task and a number of molecules.

    A process where it fits and molecules are few, in regression pooled with trees, and without
    networks below `NETWORKS_FROM`, where a stack was no better on MoleculeACE; the networks
    otherwise, trained for fewer epochs on many molecules, where one network learns from them in
    regression; a forest beside them on few molecules without a process.

    Args:
        task: What is learned.
        number: Of molecules, those that are held out included.
        weighted: Whether molecules have weights, which Gaussian processes do not take.
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
        return Recipe(models, {})
    usual = {"epochs": 25, "batch_size": 128, "learning_rate": 5e-3}
    if regression and number < DISTILLED_TO:
        return Recipe(models, usual, ANALOGUES, TEACHERS)
    return Recipe(models, usual)
