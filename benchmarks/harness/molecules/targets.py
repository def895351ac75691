"""Whether each part of the molecules has targets to learn from and to compare with."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from benchmarks.harness.errors import InputError

ADVICE = "another --split or other --target-columns may have one"


def check_targets(molecules: Any, parts: Mapping[str, Tensor], metric: str) -> None:
    """Looks at the targets of every part.

    Args:
        molecules: Molecules with ``targets`` and ``target_names``.
        parts: The positions of each part's molecules.
        metric (str): ``'rmse'``, ``'rocauc'`` or ``'ap'``.

    Raises:
        InputError: If a part of a regression has no measured value of a target, or a classification
            has targets other than 0 and 1 or a part in which no target has both.
    """
    if metric != "rmse":
        _check_classes(molecules)
    for part, places in parts.items():
        y = molecules.targets[places]
        if metric == "rmse":
            _check_measured(y, molecules.target_names, part)
        elif not ((y == 0).any(dim=0) & (y == 1).any(dim=0)).any():
            raise InputError(f"the {part} part has no target with both classes; {ADVICE}")


def _check_measured(y: Tensor, names: list[str], part: str) -> None:
    missing = y.isnan().all(dim=0).tolist()
    for name, absent in zip(names, missing, strict=True):
        if absent:
            raise InputError(f"the {part} part has no measured value of target {name!r}; {ADVICE}")


def _check_classes(molecules: Any) -> None:
    y = molecules.targets
    unfit = ~((y == 0) | (y == 1) | y.isnan())
    for k, name in enumerate(molecules.target_names):
        if unfit[:, k].any():
            place = int(unfit[:, k].nonzero()[0])
            raise InputError(
                f"--task classification needs targets of 0 and 1, but line "
                f"{molecules.row_numbers[place]} has {name!r} = {y[place, k].item():g}"
            )
