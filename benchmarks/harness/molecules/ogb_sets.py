"""The Open Graph Benchmark's molecule sets, by name: repeated to answer without importing ogb."""

from collections.abc import Mapping
from typing import TypeVar

SMALL = (
    *("ogbg-molesol", "ogbg-molfreesolv", "ogbg-mollipo"),
    *("ogbg-molbace", "ogbg-molbbbp", "ogbg-molclintox"),
    *("ogbg-moltox21", "ogbg-moltoxcast", "ogbg-molsider"),
)
# From 41,127 molecules (ogbg-molhiv) on.
LARGE = ("ogbg-molhiv", "ogbg-molmuv", "ogbg-molpcba", "ogbg-molchembl")
OGB_SETS = (*SMALL, *LARGE)

Number = TypeVar("Number", int, float)


def with_ogb(values: Mapping[str, Number], small: Number, large: Number) -> dict[str, Number]:
    """Defaults by data set, with those of small and of large sets of OGB."""
    return {**values, **dict.fromkeys(SMALL, small), **dict.fromkeys(LARGE, large)}


def in_short(values: Mapping[str, Number]) -> dict[str, Number]:
    """The same for a help text, with a word for all small sets and one for all large ones."""
    others = {name: value for name, value in values.items() if name not in OGB_SETS}
    small, large = values[SMALL[0]], values[LARGE[0]]
    if small == large:
        return {**others, "ogbg-mol*": small}
    return {**others, "ogbg-mol*": small, "ogbg-molhiv, -muv, -pcba, -chembl": large}
