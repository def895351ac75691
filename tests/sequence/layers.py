"""Every layer that is called as nn.LSTM is, for promises that hold whatever it computes."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from tests.sequence.kbrn import FAMILY as KBRN
from tests.sequence.rcnn import FAMILY as RCNN
from tests.sequence.rkm import FAMILY as RKM
from tests.sequence.variants import Variant

FAMILIES = [RCNN, RKM, KBRN]
EVERY = {
    f"{family.name}-{name}": Variant(family, options)
    for family in FAMILIES
    for name, options in family.options.items()
}
BOTH_WAYS = {k: v for k, v in EVERY.items() if v.options.get("bidirectional")}

#: One of each kind of cell, state, stack and direction, for tests that do not need all formulas.
SOME = {
    name: EVERY[name]
    for name in (
        *("rcnn-recurrent", "rcnn-highway", "rcnn-stack", "rcnn-both-ways-recurrent"),
        *("rcnn-max-recurrent", "rcnn-max-add-learned", "rkm-lstm", "rkm-rkm-cifg"),
        *("rkm-wavelets", "rkm-general", "rkm-scan-linear", "rkm-stack", "rkm-both-ways-scan"),
        *("kbrn-shared", "kbrn-norm-gaussian", "kbrn-norm-stack", "kbrn-both-ways-norm"),
    )
}
#: Those whose second derivatives are tested: every formula of a single cell, and norms both ways.
DERIVATIVES = {
    name: variant
    for name, variant in EVERY.items()
    if not {"num_layers", "bidirectional"} & {*variant.options} or name == "kbrn-both-ways-norm"
}


def _parametrize(variants: dict[str, Variant]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("variant", variants.values(), ids=variants)


of_every, of_some, both_ways = map(_parametrize, (EVERY, SOME, BOTH_WAYS))
some_one_way = _parametrize({k: v for k, v in SOME.items() if k not in BOTH_WAYS})
of_derivatives = _parametrize(DERIVATIVES)
families = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


@cache
def lstm_runs_in_bfloat16() -> bool:
    """Whether ``nn.LSTM`` runs under autocast here; for some processors oneDNN cannot run it."""
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.nn.LSTM(2, 2)(torch.randn(1, 1, 2))
    except RuntimeError:
        return False
    return True
