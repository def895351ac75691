"""Molecules whose atoms and bonds have one integer label each, as discrete kernels read them."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from pyg_kernels.chem import Feature


def labeled(molecules: Any, indices: Tensor | None = None) -> Batch:
    """Molecules with the labels ``atom`` and ``bond``, a number for each combination of features
    that one can have, and ``element``, of an atom's first feature alone.
    """
    batch = molecules.batch(torch.arange(len(molecules)) if indices is None else indices)
    featurizer = molecules.featurizer
    return Batch(
        _base_cls=Data,
        atom=combination(batch.x, featurizer.atom_features),
        element=combination(batch.x, featurizer.atom_features[:1]),
        bond=combination(batch.edge_attr, featurizer.bond_features),
        edge_index=batch.edge_index,
        batch=batch.batch,
        ptr=batch.ptr,
        num_nodes=batch.num_nodes,
    )


def combination(x: Tensor, features: Sequence[Feature]) -> Tensor:
    """The codes of the leading features of each row as one number, (n,) int64."""
    weights: list[int] = []
    codes = 1
    for feature in features:
        width = feature.width
        weights += [codes] if feature.is_indicator else [codes * k for k in range(width)]
        codes *= feature.num_codes
    # Numbers below 2^53 are exact in float64; those of float32 would end at 2^24, which the Open
    # Graph Benchmark's features exceed. On the CPU, since not every device has float64.
    assert codes < 2**53
    number = x[:, : len(weights)].cpu().double() @ torch.tensor(weights, dtype=torch.float64)
    return number.long().to(x.device)
