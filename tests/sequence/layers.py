"""Every layer that is called as nn.LSTM, for the promises that hold whatever it computes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import torch

from tests.sequence.kbrn import FAMILY as KBRN
from tests.sequence.rcnn import FAMILY as RCNN
from tests.sequence.rkm import FAMILY as RKM
from tests.sequence.variants import Family, Options, Variant

FAMILIES = [RCNN, RKM, KBRN]


def _variants(chosen: Callable[[Family], dict[str, Options]]) -> dict[str, Variant]:
    return {
        f"{family.name}-{name}": Variant(family, options)
        for family in FAMILIES
        for name, options in chosen(family).items()
    }


def _parametrize(variants: dict[str, Variant]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("variant", variants.values(), ids=variants)


ONE_WAY = _variants(lambda family: family.one_way)
BOTH_WAYS = _variants(lambda family: family.both_ways)
EVERY = {**ONE_WAY, **BOTH_WAYS}

#: One of each kind of cell, state, stack and direction, for what does not depend on formulas.
SOME = {
    name: EVERY[name]
    for name in (
        *("rcnn-recurrent", "rcnn-highway", "rcnn-stack", "rcnn-both-ways-recurrent"),
        *("rcnn-max-recurrent", "rcnn-max-add-learned", "rkm-lstm", "rkm-rkm-cifg"),
        *("rkm-wavelets", "rkm-general", "rkm-scan-linear", "rkm-stack", "rkm-both-ways-scan"),
        *("kbrn-shared", "kbrn-norm-gaussian", "kbrn-norm-stack", "kbrn-both-ways-norm"),
    )
}

of_every = _parametrize(EVERY)
of_some = _parametrize(SOME)
some_one_way = _parametrize({k: v for k, v in SOME.items() if k in ONE_WAY})
both_ways = _parametrize(BOTH_WAYS)
single_layers = _parametrize({k: v for k, v in ONE_WAY.items() if "num_layers" not in v.options})
of_derivatives = _parametrize(_variants(lambda family: family.derivatives))
families: pytest.MarkDecorator = pytest.mark.parametrize(
    "family", FAMILIES, ids=[family.name for family in FAMILIES]
)


@cache
def lstm_runs_in_bfloat16() -> bool:
    """Whether ``nn.LSTM`` runs under autocast here: oneDNN has none for some processors."""
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.nn.LSTM(2, 2)(torch.randn(1, 1, 2))
    except RuntimeError:
        return False
    return True
