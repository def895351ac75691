"""Featurisers by name."""

from __future__ import annotations

from pyg_kernels.chem.default_featurizer import DefaultFeaturizer
from pyg_kernels.chem.featurizer import Featurizer
from pyg_kernels.chem.mol_featurizer import MolFeaturizer
from pyg_kernels.chem.ogb_featurizer import OGBFeaturizer

FEATURIZERS: dict[str, type[Featurizer]] = {
    kind.name: kind for kind in (DefaultFeaturizer, MolFeaturizer, OGBFeaturizer)
}


def featurizer_by_name(featurizer: str | Featurizer) -> Featurizer:
    """The featuriser of this name; a featuriser is returned as it is.

    Args:
        featurizer: ``'default'``: :class:`DefaultFeaturizer`; ``'duvenaud'``:
            :class:`MolFeaturizer`; ``'ogb'``: :class:`OGBFeaturizer`; or a :class:`Featurizer`.

    Raises:
        ValueError: if no featuriser has this name.
        TypeError: if it is neither a string nor a featuriser.

    Example:
        >>> from pyg_kernels.chem import featurizer_by_name
        >>> featurizer_by_name("ogb")("CCO").x.shape
        torch.Size([3, 174])
    """
    if isinstance(featurizer, Featurizer):
        return featurizer
    if not isinstance(featurizer, str):
        raise TypeError(f"featurizer={featurizer!r}: expected a name or a Featurizer")
    if featurizer not in FEATURIZERS:
        names = ", ".join(map(repr, FEATURIZERS))
        raise ValueError(f"featurizer={featurizer!r}: expected one of {names}, or a Featurizer")
    return FEATURIZERS[featurizer]()
