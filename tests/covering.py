"""Covering arrays: a few rows of options in which every combination of a few options occurs."""

import itertools
import random
from collections.abc import Sequence
from typing import Any


def covering(strength: int = 2, /, **options: Sequence[Any]) -> list[dict[str, Any]]:
    """Returns few rows; each combination of values of any `strength` options is in at least one."""
    draw, names = random.Random(0), list(options)

    def meetings(row: dict[str, int]) -> set[tuple[tuple[str, int], ...]]:
        return set(itertools.combinations(row.items(), strength))

    missing = {
        meeting
        for chosen in itertools.combinations(names, strength)
        for meeting in itertools.product(
            *([(name, place) for place in range(len(options[name]))] for name in chosen)
        )
    }
    rows = []
    while missing:
        wanted = dict(min(missing))
        drawn = [
            {n: wanted.get(n, draw.randrange(len(options[n]))) for n in names} for _ in range(40)
        ]
        row = max(drawn, key=lambda r: len(meetings(r) & missing))
        missing -= meetings(row)
        rows.append({name: options[name][place] for name, place in row.items()})
    return rows
