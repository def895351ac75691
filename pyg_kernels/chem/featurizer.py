"""What featurisers of molecules have in common."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any, ClassVar

import torch
from rdkit import Chem
from torch import Tensor
from torch_geometric.data import Data

from pyg_kernels.chem.codes import InvalidRow, InvalidSmiles, MolCodes, MolCodeStore
from pyg_kernels.chem.encoding import CodeReader, checked_strings, encode_chunk, sanitized
from pyg_kernels.chem.features import Feature
from pyg_kernels.chem.processes import map_chunks


class Featurizer:
    """From SMILES to integer codes, and from codes to one-hot features of atoms and bonds.

    A subclass has a ``name`` by which it is chosen, a ``version`` that changes whenever its codes
    do, and ``atom_features`` and ``bond_features`` in the order of their columns. If they have no
    ``read``, it also has a ``reader``, its own :class:`~pyg_kernels.chem.encoding.CodeReader`.

    Example:
        >>> from rdkit import Chem
        >>> from pyg_kernels.chem import BOND_FEATURES, Feature, Featurizer
        >>> halogens = Feature("halogen", ("F", "Cl"), (9, 17), True, read=Chem.Atom.GetAtomicNum)
        >>> class Halogens(Featurizer):
        ...     name, version = "halogens", 1
        ...     atom_features, bond_features = (halogens,), BOND_FEATURES
        >>> Halogens()("CCCl").x
        tensor([[0., 0., 1.],
                [0., 0., 1.],
                [0., 1., 0.]])

    See Also:
        :class:`Feature`, a column of it; :class:`DefaultFeaturizer`, :class:`MolFeaturizer` and
        :class:`OGBFeaturizer`, the built-in featurisers.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    atom_features: ClassVar[tuple[Feature, ...]]
    bond_features: ClassVar[tuple[Feature, ...]]
    reader: ClassVar[type[CodeReader]] = CodeReader

    @property
    def atom_dim(self) -> int:
        """The number of float columns of an atom."""
        return sum(feature.width for feature in self.atom_features)

    @property
    def bond_dim(self) -> int:
        """The number of float columns of a bond."""
        return sum(feature.width for feature in self.bond_features)

    def new_reader(self) -> CodeReader:
        """A new reader, which finds the codes of molecules."""
        return self.reader(self.atom_features, self.bond_features)

    def description(self) -> dict[str, Any]:
        """The version and every feature with its choices, in plain JSON types."""
        return {
            "version": self.version,
            "atom_features": [_described(feature) for feature in self.atom_features],
            "bond_features": [_described(feature) for feature in self.bond_features],
        }

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that change whenever :meth:`description` does."""
        text = json.dumps(self.description(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def encode(self, molecule: str | Chem.Mol) -> MolCodes:
        """The integer codes of one molecule.

        Args:
            molecule: a SMILES string, or an RDKit molecule (sanitized here if it is not yet).

        Raises:
            InvalidSmiles: if RDKit cannot read the string, or finds no atoms.
            TypeError: if the molecule is neither a string nor an RDKit molecule.
        """
        reader = self.new_reader()
        mol = sanitized(molecule)
        reason = reader.refusal(mol)
        if reason:
            text = molecule if isinstance(molecule, str) else Chem.MolToSmiles(molecule)
            raise InvalidSmiles(text, reason)
        reader.read(mol, molecule if isinstance(molecule, str) else None)
        return reader.store([0])[0]

    def encode_many(
        self, smiles: Sequence[str], num_workers: int | None = None, progress: bool = False
    ) -> tuple[MolCodeStore, list[InvalidRow]]:
        """The integer codes of many molecules, on several processes.

        Args:
            smiles: SMILES strings.
            num_workers: the number of processes; 0: only this one; None: one per core, or only
                this one where the molecules are too few to gain from more.
            progress: whether to show a progress bar on standard error.

        Returns:
            The molecules that can be read, in the given order, and the strings that cannot, with
            their positions. An empty string cannot be read.

        Raises:
            TypeError: if an item is not a string, or ``smiles`` is a single one.
            ValueError: if ``num_workers`` is negative.
        """
        encode = partial(encode_chunk, new_reader=self.new_reader)
        chunks = map_chunks(encode, checked_strings(smiles), num_workers, progress)
        if not chunks:
            return self.new_reader().store([]), []
        store = MolCodeStore.concatenate([store for store, _ in chunks])
        return store, [row for _, rows in chunks for row in rows]

    def expand_atoms(self, codes: Tensor) -> Tensor:
        """Turns ``(N, C)`` codes of atoms, one per feature, into ``(N, atom_dim)`` float32.

        Raises:
            ValueError: if ``codes`` has another shape.
        """
        return _expanded(codes, self.atom_features)

    def expand_bonds(self, codes: Tensor) -> Tensor:
        """Turns ``(E, B)`` codes of directed bonds, one per feature, into ``(E, bond_dim)`` floats.

        Raises:
            ValueError: if ``codes`` has another shape.
        """
        return _expanded(codes, self.bond_features)

    def __call__(self, molecule: str | Chem.Mol) -> Data:
        """One molecule as a graph.

        Args:
            molecule: a SMILES string or an RDKit molecule.

        Returns:
            ``Data`` with ``x`` (N, atom_dim), ``edge_index`` (2, E), ``edge_attr`` (E, bond_dim)
            and ``smiles`` (the given string, or RDKit's for a molecule).

        Raises:
            InvalidSmiles: if RDKit cannot read the string, or finds no atoms.
            TypeError: if the molecule is neither a string nor an RDKit molecule.
        """
        codes = self.encode(molecule)
        return Data(
            x=self.expand_atoms(torch.from_numpy(codes.atoms)),
            edge_index=torch.from_numpy(codes.edge_index).long(),
            edge_attr=self.expand_bonds(torch.from_numpy(codes.bonds)),
            smiles=molecule if isinstance(molecule, str) else Chem.MolToSmiles(molecule),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Featurizer) and self.description() == other.description()

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(atom_dim={self.atom_dim}, bond_dim={self.bond_dim})"


def _described(feature: Feature) -> dict[str, Any]:
    return {
        "name": feature.name,
        "choices": list(feature.choices),
        "has_unknown": feature.has_unknown,
        **({"one_hot": True} if feature.one_hot else {}),
    }


def _expanded(codes: Tensor, features: Sequence[Feature]) -> Tensor:
    """One scatter: a one at ``offset + code`` of each one-hot, the code itself for an indicator.

    A value that has no slot leaves the columns of its feature zero.
    """
    if codes.dim() != 2 or codes.size(1) != len(features):
        raise ValueError(
            f"codes must have the shape (n, {len(features)}), one column each for "
            f"{', '.join(feature.name for feature in features)}; not {tuple(codes.shape)}"
        )
    device = codes.device
    *offsets, width = accumulate((feature.width for feature in features), initial=0)
    indicator = torch.tensor([feature.is_indicator for feature in features], device=device)
    known = codes < torch.tensor([feature.num_codes for feature in features], device=device)
    slots = torch.where(indicator | ~known, 0, codes.long()) + torch.tensor(offsets, device=device)
    ones = (torch.where(indicator, codes, 1) * known).to(torch.float32)
    return ones.new_zeros(len(codes), width).scatter_(1, slots, ones)
