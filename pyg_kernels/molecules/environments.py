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

FEWEST_ATOMS = 1000  # with fewer, too few environments repeat to gain from


class Level(NamedTuple):
    """The U different environments, of i bonds around an atom, in a batch of N atoms.

    The environment of each atom, ``(N,)``; for each environment, the one of i - 1 bonds within it,
    ``(U,)``; edges to each environment from those of i - 1 bonds around its atom's neighbors.
    """

    of_atom: Tensor
    within: Tensor
    edges: Edges


def wl_output(net: Module, batch: Batch) -> Tensor | None:
    r"""The output of a network for a batch, if it takes fewer products than ``net(...)``.

    The labels :math:`h^{(i)}` and states :math:`c^{(i)}` of an atom depend only on its environment
    of i bonds, as the labels of Weisfeiler and Lehman do, and libraries of molecules have few
    different ones. Every iteration is evaluated once for each environment, on a bipartite graph
    from those of i - 1 bonds to those of i. Graphs add up the states of their atoms. 2,000
    molecules of a library of ring systems take a ninth of the products, of ChEMBL a sixth. Equal up
    to rounding; None if nothing is gained, or walks do not have two atoms.
    """
    if not isinstance(batch, Batch):  # in an export, which must allow any number of atoms
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
    """The environments of the atoms of a batch, which are cached in the batch.

    They are the features of environments of 0 bonds, ``(U, F)``, and the levels 1 to depth; None if
    atoms or bonds rarely share features. Two different environments are taken for one with the
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
