"""Molecules as kernels read them, and a sum of kernels for their properties."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, reduce
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data

from pyg_kernels.checks import check_flags, checked_choice
from pyg_kernels.kernels.arguments import Names, checked_names
from pyg_kernels.kernels.graphs import LabeledData
from pyg_kernels.kernels.kernel import Kernel
from pyg_kernels.kernels.reading import is_networkx, with_molecules_read
from pyg_kernels.kernels.walk_counts import LabelSequenceKernel, ShortestPathKernel
from pyg_kernels.kernels.wl import WLSubtreeKernel

DESCRIPTORS = (
    "logP", "molar refractivity", "polar surface", "weight", "hydrogen-bond donors",
    "hydrogen-bond acceptors", "rotatable bonds", "rings", "aromatic rings", "sp3 fraction",
    "heavy atoms", "heteroatoms", "surface",
)  # fmt: skip
_CONSTANT = 1e-8
_POLAR, _ACCEPTORS, _HALOGENS = (7, 8), (7, 8, 9), (9, 17, 35, 53)


def molecule_graphs(molecules: Iterable[Any]) -> list[Data]:
    """Turns molecules into labeled graphs, as kernels on graphs do with SMILES.

    Args:
        molecules: SMILES or RDKit molecules.

    Returns:
        Graphs with the labels of atoms ``x`` (element, charge, neighbors, hydrogens, ring,
        aromaticity, chirality), ``element``, ``valence`` (element, neighbors, bonds that are not
        single, charge) and ``role`` (donor, acceptor, aromaticity, charge, halogen, sulfur); the
        labels of bonds ``edge_attr`` (type, stereo); ``descriptors``, ``(1, 13)``, those of
        `DESCRIPTORS`; and ``mol``, the molecule itself. Rows of integers are labels even where
        kernels read them as features.

    Raises:
        ValueError: If RDKit cannot read a SMILES.
        TypeError: If an item is neither a SMILES nor an RDKit molecule.
        ImportError: If RDKit is not installed (the extra ``mol``).

    Example:
        >>> from pyg_kernels.kernels import molecule_graphs
        >>> (graph,) = molecule_graphs(["CC[O-]"])
        >>> graph.x[:, 0].tolist(), graph.descriptors.shape
        ([6, 6, 8], torch.Size([1, 13]))
    """
    if isinstance(molecules, str):
        raise TypeError(f"expected molecules, not one string: [{molecules[:20]!r}] has one")
    return [molecule_graph(molecule, number) for number, molecule in enumerate(molecules)]


def molecule_graph(molecule: Any, number: int, featurizer: Any = None) -> Data:
    """One molecule of a collection as a graph; `featurizer` as in :class:`RandomWalkKernel`."""
    make = featurizer if callable(featurizer) else _featurizer(featurizer)
    try:
        data = make(molecule)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"molecule {number}: {error}") from error
    if not isinstance(data, Data):
        raise TypeError(
            f"featurizer={featurizer!r} gave a {type(data).__name__} for molecule {number}: "
            "expected a Data"
        )
    return data


@cache
def _featurizer(name: str | None) -> Callable[[Any], Data]:
    from pyg_kernels import chem

    if name in (None, "labels"):
        return _labeled
    checked_choice(name, "featurizer", (None, "labels", *chem.FEATURIZERS))
    return chem.featurizer_by_name(str(name))


def _labeled(molecule: Any) -> Data:
    from rdkit.Chem import Atom, Bond

    from pyg_kernels.chem.default_featurizer import chirality_of, label_stereo, stereo_of
    from pyg_kernels.chem.encoding import atoms_and_bonds, sanitized

    mol = sanitized(molecule)
    # RDKit's own tags depend on the order of atoms; these labels depend on the molecule alone.
    label_stereo(mol, molecule if isinstance(molecule, str) else None)
    atoms, bonds = atoms_and_bonds(mol)

    def read(items: list[Any], *properties: Callable[[Any], int]) -> NDArray[np.int64]:
        """A column for each property."""
        columns = [list(map(each, items)) for each in properties]
        return np.array(columns, dtype=np.int64).reshape(len(columns), len(items)).T.copy()

    own = read(
        atoms, Atom.GetAtomicNum, Atom.GetFormalCharge, Atom.GetTotalDegree, Atom.GetTotalNumHs,
        Atom.IsInRing, Atom.GetIsAromatic, chirality_of,
    )  # fmt: skip
    z, charge, _, hydrogens, _, aromatic, _ = own.T
    ends = Bond.GetBeginAtomIdx, Bond.GetEndAtomIdx
    found = read(bonds, *ends, Bond.GetBondType, stereo_of)
    both_ways = np.concatenate((found, found[:, [1, 0, 2, 3]]))
    orders: NDArray[Any] = np.array(list(map(Bond.GetBondTypeAsDouble, bonds)))
    degree = np.bincount(found[:, :2].ravel(), minlength=len(atoms))
    several = np.bincount(found[orders != 1, :2].ravel(), minlength=len(atoms))
    is_in = [[atom in known for atom in z.tolist()] for known in (_POLAR, _ACCEPTORS, _HALOGENS)]
    role = (is_in[0] & (hydrogens > 0), is_in[1], aromatic, charge, is_in[2], z == 16)
    return LabeledData(
        x=torch.from_numpy(own),
        element=torch.from_numpy(z.copy()).unsqueeze(1),
        valence=torch.from_numpy(np.stack((z, degree, several, charge), 1)),
        role=torch.from_numpy(np.stack(role, 1)),
        edge_index=torch.from_numpy(both_ways[:, :2].T.copy()),
        edge_attr=torch.from_numpy(both_ways[:, 2:].copy()),
        descriptors=torch.tensor([_descriptors(mol)], dtype=torch.float64),
        mol=mol,
    )


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
    """Standardized vectors, (n, F), and what they are standardized by."""

    values: Tensor
    mean: Tensor
    scale: Tensor
    length: float | None = None  # of the Gaussian, infinite for the linear kernel; None: all

    def __len__(self) -> int:
        return len(self.values)

    def part(self, items: Tensor) -> _Vectors:
        items = torch.as_tensor(items, device=self.values.device)
        return replace(self, values=self.values.index_select(0, items))


def _standardized(values: Tensor) -> _Vectors:
    largest = values.abs().amax(0)
    # Scaled to about 1 before they are squared; a power of two causes no rounding.
    unit = torch.exp2((torch.frexp(largest.detach())[1] - 1).to(values))
    mean, scale = (values / unit).mean(0) * unit, (values / unit).std(0, correction=0) * unit
    # RDKit sums in the order of the atoms: equal descriptors may differ in their last digits.
    scale = torch.where(scale <= _CONSTANT * largest, torch.inf, scale)
    return _Vectors((values - mean) / scale, mean, scale)


@dataclass(eq=False, repr=False)
class VectorKernel(Kernel):
    r"""The sum of a linear kernel and of Gaussians of several lengths, on one vector per graph.

    .. math::
        K(G, G') = \frac{\langle d, d' \rangle}{F} +
        \sum_l \exp\Big(-\frac{\lVert d - d' \rVert^2}{2 l^2 F}\Big)

    where :math:`d, d'` are the F numbers of each graph, standardized by their mean and deviation
    over the fitted graphs (over all graphs where the kernel is called). A number is set to 0 if its
    deviation is at most :math:`10^{-8}` of its largest absolute value. In a :class:`KernelGP` every
    summand has a weight of its own.

    Args:
        graph_feature: The attribute with the vector, ``(1, F)`` or ``(F,)``; for networkx graphs
            ``graph.graph[name]``. With a list of names, their vectors are concatenated.
        lengths: The lengths l.
        linear: Whether to include the linear kernel, the first term.
        featurizer: See :class:`RandomWalkKernel`.

    Raises:
        ValueError: On an argument out of range; on no graphs; on a graph whose vector is missing,
            has another size than that of the first graph, or is not finite.

    Example:
        >>> from pyg_kernels.kernels import KernelGP, VectorKernel, WLSubtreeKernel
        >>> smiles, y = ["CCO", "CCCO", "CCCCO", "c1ccccc1", "Cc1ccccc1"], [0.0, 0.3, 0.8, 2.1, 2.7]
        >>> kernels = [WLSubtreeKernel(compare="minmax"), VectorKernel(lengths=(1.0,))]
        >>> gp = KernelGP(kernels).fit(smiles, y)
        >>> gp.weights_.shape  # of 0, ..., 3 iterations, the inner product and one Gaussian
        (6, 1)

    See Also:
        :func:`molecule_graphs`, whose descriptors it reads; :func:`molecule_kernels`;
        :class:`KernelGP`.
    """

    graph_feature: Names = "descriptors"
    lengths: Sequence[float] = (0.5, 1.0, 2.0)
    linear: bool = True
    _: KW_ONLY
    featurizer: Any = None

    def _check(self) -> None:
        super()._check()
        check_flags(linear=self.linear)
        known = isinstance(self.lengths, Sequence | np.ndarray)
        if not known or not all(0 < length < float("inf") for length in self.lengths):
            raise ValueError(f"lengths={self.lengths!r}: expected finite numbers above 0")
        if not checked_names(self.graph_feature, "graph_feature"):
            raise ValueError(f"graph_feature={self.graph_feature!r}: expected at least one name")
        if not self._every_length():
            raise ValueError("lengths=() with linear=False: expected at least one kernel")

    def _every_length(self) -> list[float]:
        return [*map(float, self.lengths), *([float("inf")] if self.linear else [])]

    def __call__(self, xs: Any, ys: Any = None) -> Tensor:
        if ys is None:
            return super().__call__(xs)
        self._check()
        first = self._rows(xs)
        both = _standardized(torch.cat([first, self._rows(ys, first.size(1))]))
        items = torch.arange(len(both))
        return self._gram(both.part(items[: len(first)]), both.part(items[len(first) :]))

    def _read(self, items: Any, like: _Vectors | None = None) -> _Vectors:
        if like is None:
            return _standardized(self._rows(items))
        rows = self._rows(items, like.values.size(1))
        return replace(like, values=(rows - like.mean) / like.scale)

    def _rows(self, items: Any, width: int | None = None) -> Tensor:
        """The numbers of all graphs, (n, F)."""
        names, rows = checked_names(self.graph_feature, "graph_feature"), list[Tensor]()
        for number, graph in enumerate(with_molecules_read(items, self.featurizer)):
            if not isinstance(graph, Data) and not is_networkx(graph):
                raise TypeError(f"graph {number} is a {type(graph).__name__}: expected a graph")
            known = graph.graph if is_networkx(graph) else graph
            lacking = [name for name in names if name not in known]
            if lacking:
                raise ValueError(f"graph {number} has no {lacking[0]!r}")
            try:
                found = [torch.as_tensor(known[name], dtype=torch.float64) for name in names]
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"{self.graph_feature!r} of graph {number} is no tensor of numbers: {error}"
                ) from None
            row = torch.cat([part.reshape(-1) for part in found])
            if width not in (None, len(row)):
                raise ValueError(
                    f"{self.graph_feature!r} of graph {number} has {len(row)} numbers: expected "
                    f"{width}"
                )
            width = len(row)
            if not bool(row.isfinite().all()):
                raise ValueError(f"{self.graph_feature!r} of graph {number} is not finite")
            rows.append(row)
        if not rows:
            raise ValueError("expected at least one graph, got none")
        return torch.stack(rows)

    def _levels(self, collection: _Vectors) -> list[_Vectors]:
        return [replace(collection, length=length) for length in self._every_length()]

    def _raw_gram(self, a: _Vectors, b: _Vectors | None) -> Tensor:
        other = a if b is None else b
        norms = a.values.square().sum(1, keepdim=True), other.values.square().sum(1)
        gram = self._summed(a, a.values @ other.values.t(), *norms)
        return (gram + gram.t()).div_(2) if b is None else gram

    def _raw_diagonal(self, collection: _Vectors) -> Tensor:
        norms = collection.values.square().sum(1)
        return self._summed(collection, norms.clone(), norms, norms)

    def _summed(self, vectors: _Vectors, inner: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """The kernel, from inner products, which are overwritten, and squared norms."""
        lengths = self._every_length() if vectors.length is None else [vectors.length]
        width = max(1, vectors.values.size(1))
        terms = [inner / width] if float("inf") in lengths else []
        lengths = [length for length in lengths if length < float("inf")]
        if lengths:
            distances = inner.mul_(-2).add_(first).add_(second).clamp_min_(0)
            terms += [distances.mul(-0.5 / (length**2 * width)).exp_() for length in lengths]
        return reduce(Tensor.add_, terms)


def molecule_kernels() -> list[Kernel]:
    """Kernels of molecules for :class:`KernelGP`, which learns their weights.

    These are min-max kernels of atom environments, label sequences and shortest paths, with four
    ways to label atoms. Min-max divides out the size of molecules, so kernels of a few descriptors
    are added. All of them read the attributes that :func:`molecule_graphs` sets.

    Example:
        >>> from pyg_kernels.kernels import KernelGP, molecule_kernels
        >>> smiles, y = ["CCO", "CCCO", "CCCCO", "c1ccccc1", "Cc1ccccc1"], [0.0, 0.3, 0.8, 2.1, 2.7]
        >>> gp = KernelGP(molecule_kernels()).fit(smiles, y)
        >>> gp.predict(["CCCCCO", "CCc1ccccc1"]).shape
        (2,)
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
