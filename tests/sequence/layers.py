"""Every layer that is called as nn.LSTM, for the promises that hold whatever it computes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

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
DERIVATIVES = _variants(lambda family: family.derivatives)
EVERY = {**ONE_WAY, **BOTH_WAYS}

of_every = _parametrize(EVERY)
one_way = _parametrize(ONE_WAY)
both_ways = _parametrize(BOTH_WAYS)
single_layers = _parametrize({k: v for k, v in ONE_WAY.items() if "num_layers" not in v.options})
_ANY_STATE = _variants(
    lambda f: {k: v for k, v in f.one_way.items() if k not in f.particular_states}
)
any_state_of_one_cell = _parametrize(
    {k: v for k, v in _ANY_STATE.items() if "num_layers" not in v.options}
)
derivatives = _parametrize(DERIVATIVES)
derivatives_of_one_cell = _parametrize(
    {k: v for k, v in DERIVATIVES.items() if not {"num_layers", "bidirectional"} & {*v.options}}
)
families: pytest.MarkDecorator = pytest.mark.parametrize(
    "family", FAMILIES, ids=[family.name for family in FAMILIES]
)
