"""The featuriser that a checkpoint was trained with."""

from typing import Any


def featurizer_of(description: Any) -> Any:
    """The featuriser of this version that has a description.

    Args:
        description: What ``Featurizer.description()`` gave, kept in a checkpoint.

    Returns:
        A ``pyg_kernels.chem.Featurizer``.

    Raises:
        ValueError: If this version has none, with what differs.
    """
    from pyg_kernels.chem import MolFeaturizer, OGBFeaturizer

    source = description.get("source") if isinstance(description, dict) else None
    featurizer = OGBFeaturizer() if source == "ogb" else MolFeaturizer()
    if featurizer.description() != description:
        raise ValueError(_difference(description, featurizer.description()))
    return featurizer


def _difference(trained: Any, present: dict[str, Any]) -> str:
    for name, value in present.items():
        if not isinstance(trained, dict) or trained.get(name) != value:
            return f"its {name.replace('_', ' ')} differs from this version's"
    return "it has features that this version does not know"
