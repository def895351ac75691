"""Molecules as kernels read them, and a sum of kernels for their properties."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from pyg_kernels.kernels.arguments import checked_choice, checked_collection
from pyg_kernels.kernels.kernel import Kernel
from pyg_kernels.kernels.reading import with_molecules_read
from pyg_kernels.kernels.walk_counts import LabelSequenceKernel, ShortestPathKernel
from pyg_kernels.kernels.wl_subtree import WLSubtreeKernel

DESCRIPTORS = (
    "logP", "molar refractivity", "polar surface", "weight", "hydrogen-bond donors",
    "hydrogen-bond acceptors", "rotatable bonds", "rings", "aromatic rings", "sp3 fraction",
    "heavy atoms", "heteroatoms", "surface",
)  # fmt: skip
_CONSTANT = 1e-8
_POLAR, _ACCEPTORS, _HALOGENS = (7, 8), (7, 8, 9), (9, 17, 35, 53)


def molecule_graphs(molecules: Iterable[Any]) -> list[Data]:
    """Molecules as labeled graphs.

    Args:
        molecules: SMILES or RDKit molecules that are sanitized.

    Returns:
        Graphs with the labels of atoms ``x`` (element, charge, neighbors, hydrogens, ring,
        aromaticity, chirality), ``element``, ``valence`` (element, neighbors, bonds that are not
        single, charge) and ``role`` (donor, acceptor, aromaticity, charge, halogen, sulfur); the
        labels of bonds ``edge_attr`` (type, stereo); and ``descriptors``, ``(1, 13)``, those of
        `DESCRIPTORS`.

    Raises:
        ValueError: On a SMILES that RDKit does not read.
        TypeError: On what is neither SMILES nor a molecule.
        ImportError: Without RDKit: the extra ``mol``.
    """
    from rdkit import Chem

    graphs = []
    for number, molecule in enumerate(molecules):
        mol = Chem.MolFromSmiles(molecule) if isinstance(molecule, str) else molecule
        if mol is None:
            raise ValueError(f"molecule {number}, {molecule!r}, is not a SMILES that RDKit reads")
        if not isinstance(mol, Chem.Mol):
            raise TypeError(
                f"molecule {number} is a {type(mol).__name__}: expected a SMILES or an RDKit "
                "molecule"
            )
        graphs.append(_graph(mol))
    return graphs


def _graph(mol: Any) -> Data:
    own, element, valence, role = [], [], [], []
    for atom in mol.GetAtoms():
        z, charge, hydrogens = atom.GetAtomicNum(), atom.GetFormalCharge(), atom.GetTotalNumHs()
        aromatic = atom.GetIsAromatic()
        chirality = int(atom.GetChiralTag())
        own.append(
            (z, charge, atom.GetTotalDegree(), hydrogens, atom.IsInRing(), aromatic, chirality)
        )
        element.append(z)
        several = sum(bond.GetBondTypeAsDouble() != 1 for bond in atom.GetBonds())
        valence.append((z, atom.GetDegree(), several, charge))
        donates = z in _POLAR and hydrogens > 0
        role.append((donates, z in _ACCEPTORS, aromatic, charge, z in _HALOGENS, z == 16))
    bonds = [
        (b.GetBeginAtomIdx(), b.GetEndAtomIdx(), int(b.GetBondType()), int(b.GetStereo()))
        for b in mol.GetBonds()
    ]
    table = np.array(bonds, dtype=np.int64).reshape(-1, 4)
    edges = np.concatenate([table[:, :2], table[:, 1::-1]]).T
    labels = np.concatenate([table[:, 2:], table[:, 2:]])
    return Data(
        x=_labels(own, 7),
        element=_labels(element, 1),
        valence=_labels(valence, 4),
        role=_labels(role, 6),
        edge_index=torch.from_numpy(np.ascontiguousarray(edges)),
        edge_attr=torch.from_numpy(labels),
        descriptors=torch.tensor([_descriptors(mol)], dtype=torch.float64),
    )


def _labels(rows: Sequence[Any], width: int) -> Tensor:
    return torch.from_numpy(np.array(rows, dtype=np.int64).reshape(-1, width))


def _descriptors(mol: Any) -> tuple[float, ...]:
    from rdkit.Chem import rdMolDescriptors as made  # noqa: N813

    return (
        *made.CalcCrippenDescriptors(mol), made.CalcTPSA(mol), made.CalcExactMolWt(mol),
        made.CalcNumHBD(mol), made.CalcNumHBA(mol), made.CalcNumRotatableBonds(mol),
        made.CalcNumRings(mol), made.CalcNumAromaticRings(mol), made.CalcFractionCSP3(mol),
        mol.GetNumHeavyAtoms(), made.CalcNumHeteroatoms(mol), made.CalcLabuteASA(mol),
    )  # fmt: skip


@dataclass(frozen=True)
class _Vectors:
    """Standardized vectors, (n, F), and what they are standardized by.

    Attributes:
        length: The length of the Gaussian, infinite for the linear kernel; None for all of them.
    """

    values: Tensor
    mean: Tensor
    scale: Tensor
    length: float | None = None

    def __len__(self) -> int:
        return len(self.values)

    def part(self, items: Tensor) -> _Vectors:
        return replace(self, values=self.values.index_select(0, torch.as_tensor(items)))


class VectorKernel(Kernel):
    r"""Gaussians of several lengths and the inner product, of a vector a graph.

    .. math::
        K(G, G') = \frac{\langle d, d' \rangle}{F} +
        \sum_l \exp\Big(-\frac{\lVert d - d' \rVert^2}{2 l^2 F}\Big)

    with :math:`d, d'` the graphs' F numbers less their mean over the fitted graphs (over the first
    collection where the kernel is called) and divided by their deviation; numbers that do not
    vary there are left out. In a :class:`KernelGP` every summand has a weight of its own.

    Args:
        attribute: The attribute of the vectors, ``(1, F)`` or ``(F,)``.
        lengths: The lengths l.
        linear: Whether there is the inner product.

    Raises:
        ValueError: On an argument out of range; on no graphs, a graph without the vector, or with
            one of another size than the first or with NaN.
    """

    def __init__(
        self,
        attribute: str = "descriptors",
        lengths: Sequence[float] = (0.5, 1.0, 2.0),
        linear: bool = True,
    ) -> None:
        self.attribute = attribute
        self.lengths = lengths
        self.linear = linear

    def _check(self) -> None:
        checked_choice(self.linear, "linear", (False, True))
        if not isinstance(self.lengths, Iterable) or not all(
            0 < length < float("inf") for length in self.lengths
        ):
            raise ValueError(f"lengths={self.lengths!r}: expected finite numbers above 0")
        if not self._every_length():
            raise ValueError("lengths=() with linear=False: expected at least one kernel")

    def _every_length(self) -> list[float]:
        return [*map(float, self.lengths), *([float("inf")] if self.linear else [])]

    def _read(self, items: Any, like: _Vectors | None = None) -> _Vectors:
        if isinstance(items, Data):
            items = items.to_data_list() if isinstance(items, Batch) else [items]
        items = with_molecules_read(checked_collection(items, "Data"))
        rows = []
        for number, graph in enumerate(items):
            row = getattr(graph, self.attribute, None)
            if not isinstance(row, Tensor):
                raise ValueError(f"graph {number} has no {self.attribute!r}")
            rows.append(row.reshape(-1).double())
            if rows[-1].shape != rows[0].shape:
                raise ValueError(
                    f"{self.attribute!r} of graph {number} has {row.numel()} numbers: expected "
                    f"{rows[0].numel()}"
                )
            if not bool(rows[-1].isfinite().all()):
                raise ValueError(f"{self.attribute!r} of graph {number} is not finite")
        if not rows:
            raise ValueError("expected at least one graph, got none")
        values = torch.stack(rows)
        if like is None:
            mean, scale = values.mean(0), values.std(0, correction=0)
            # RDKit sums in the order of atoms: equal descriptors may differ in their last digits.
            scale[scale <= _CONSTANT * values.abs().amax(0)] = torch.inf
        else:
            mean, scale = like.mean, like.scale
        return _Vectors((values - mean) / scale, mean, scale)

    def _levels(self, collection: _Vectors) -> list[_Vectors]:
        return [replace(collection, length=length) for length in self._every_length()]

    def _raw_gram(self, a: _Vectors, b: _Vectors | None) -> Tensor:
        other = a.values if b is None else b.values
        width = max(1, other.size(1))
        inner = a.values @ other.t()
        squares = a.values.square().sum(1, keepdim=True) + other.square().sum(1) - 2 * inner
        distances = squares.clamp_min(0) / width
        return self._summed(a.length, inner / width, distances)

    def _raw_diagonal(self, collection: _Vectors) -> Tensor:
        norms = collection.values.square().mean(1)
        return self._summed(collection.length, norms, torch.zeros_like(norms))

    def _summed(self, length: float | None, inner: Tensor, distances: Tensor) -> Tensor:
        total = torch.zeros_like(inner)
        for wanted in self._every_length() if length is None else [length]:
            if wanted == float("inf"):
                total += inner
            else:
                total += torch.exp(distances * (-0.5 / wanted**2))
        return total


def molecule_kernels() -> list[Kernel]:
    """Kernels of molecules for :class:`KernelGP`, which learns their weights.

    Min-max kernels of atoms' environments, label sequences and shortest paths under four ways to
    label atoms, and kernels of a few descriptors, as min-max divides the size of molecules away.
    They read what :func:`molecule_graphs` gives.
    """
    bonds: dict[str, Any] = {"edge_label": "edge_attr", "compare": "minmax"}
    return [
        WLSubtreeKernel(3, **bonds),
        WLSubtreeKernel(3, "element", **bonds),
        WLSubtreeKernel(3, "role", compare="minmax"),
        LabelSequenceKernel(5, **bonds),
        LabelSequenceKernel(6, "element", **bonds),
        LabelSequenceKernel(5, "valence", compare="minmax"),
        *(
            ShortestPathKernel(node_label=label, compare="minmax")
            for label in ("x", "element", "valence", "role")
        ),
        VectorKernel(),
    ]
