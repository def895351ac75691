"""Predictions of many molecules at once: each environment of an atom is evaluated once."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module
from torch_geometric.data import Batch

from pyg_kernels.kernels.hashing import ODD, ODDER, mixed
from pyg_kernels.nn import WLKernelNet
from pyg_kernels.ops.edges import Edges, distinct_rows

FEWEST_ATOMS = 1000  # of fewer, environments are too few to gain from


class Level(NamedTuple):
    """The different environments of the atoms of a batch, of i bonds around each.

    That of each atom, ``(N,)``; of each environment the one of i - 1 bonds around its atom,
    ``(U,)``; edges from the environments of i - 1 bonds of an atom's neighbors to its own.
    """

    of_atom: Tensor
    within: Tensor
    edges: Edges


def wl_output(net: Module, batch: Batch) -> Tensor | None:
    r"""What a network makes of a batch, where that takes fewer products than ``net(...)``.

    The labels :math:`h^{(i)}` and states :math:`c^{(i)}` of an atom depend on its environment of i
    bonds alone, as the labels of Weisfeiler and Lehman do; libraries of molecules have few
    different ones for each i. Every iteration is evaluated once for each environment, as a
    bipartite graph from those of i - 1 bonds to those of i, and graphs add up their atoms':
    2,000 molecules of a library of ring systems take a ninth of the products, of ChEMBL a sixth.
    Equal up to rounding; None where there is nothing to gain, or walks are not of two atoms.
    """
    if not isinstance(batch, Batch):  # of an export, which is to keep any number of atoms
        return None
    if not isinstance(net, WLKernelNet) or net.training or torch.is_grad_enabled():
        return None
    if net.readout != "sum" or any(conv.order != 2 for conv in net.convs):
        return None
    if batch.x.device.type != "cpu" or len(batch.x) < FEWEST_ATOMS or batch.edge_attr is None:
        return None
    found = environments(batch, len(net.convs))
    if found is None:
        return None
    x, levels = found
    label = net.embedding(x)
    total: Any = 0
    for conv, level in zip(net.convs, levels, strict=True):
        pair = label, label.index_select(0, level.within)
        label, state = conv(pair, level.edges, return_states=True)
        total = total + F.embedding_bag(level.of_atom, state, batch.ptr[:-1], mode="sum")
    return net.head(total)


def environments(batch: Batch, depth: int) -> tuple[Tensor, list[Level]] | None:
    """The environments of the atoms of a batch, kept there.

    They are the features of those of no bonds, ``(U, F)``, and the levels 1 to depth; None where
    atoms or bonds hardly have the same features. Two different ones are taken for one with the
    probability 2^-64.
    """
    kept = batch.get("environments")
    if kept is None:
        kept = distinct_rows(batch.x), distinct_rows(batch.edge_attr), []
        batch.environments = kept
    atoms, bonds, levels = kept
    if atoms is None or bonds is None:
        return None
    (x, of_atom), (attr, bond_type) = atoms, bonds
    source, target = batch.edge_index
    for number in range(len(levels), depth):
        before = levels[-1].of_atom if levels else of_atom
        size = len(x) if number == 0 else len(levels[-1].within)
        key = mixed(before)
        arriving = mixed(key.index_select(0, source) * ODD + bond_type)
        key = key.index_add(0, target, arriving * ODDER)
        distinct, after = mixed(key).unique(return_inverse=True)
        first = torch.full_like(distinct, len(after))
        first.scatter_reduce_(0, after, torch.arange(len(after)), "amin")
        is_first = torch.zeros(len(after), dtype=torch.bool)
        is_first[first] = True
        own = is_first.index_select(0, target).nonzero()[:, 0]
        edges = Edges(
            before.index_select(0, source.index_select(0, own)),
            after.index_select(0, target.index_select(0, own)),
            size,
            len(first),
            attr,
            bond_type.index_select(0, own),
        )
        levels.append(Level(after, before.index_select(0, first), edges))
    return x, levels[:depth]
