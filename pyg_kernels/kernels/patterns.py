"""What the patterns that kernels count are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor
from torch_geometric.data import Data

from pyg_kernels.kernels.graphs import Graphs, LabeledData
from pyg_kernels.kernels.hashing import token_hash
from pyg_kernels.kernels.reading import (
    GRAPHS_AT_A_TIME,
    graph_collection,
    read_chunks,
    with_molecule_read,
)
from pyg_kernels.segments import place

if TYPE_CHECKING:
    from pyg_kernels.kernels.count_kernel import CountKernel, Labels

_LONGEST = 400  # letters of an environment; longer ones end in a hash
_BONDS = {"SINGLE": "-", "DOUBLE": "=", "TRIPLE": "#", "AROMATIC": ":"}


def pattern_names(kernel: CountKernel, items: Any, labels: Labels) -> list[str]:
    """The names of patterns that occur in some graphs, given the sorted labels of each block."""
    items, attributes = graph_collection(items), kernel._attributes()
    columns = attributes.columns()
    found: list[dict[int, str]] = [{} for _ in labels]
    for start in range(0, len(items), GRAPHS_AT_A_TIME):
        numbers = range(start, min(start + GRAPHS_AT_A_TIME, len(items)))
        part = [with_molecule_read(items[i], i, kernel.featurizer, columns) for i in numbers]
        (graphs,) = read_chunks(part, attributes)
        texts = GraphTexts(part, graphs, kernel.node_label, getattr(kernel, "edge_label", None))
        blocks = kernel._occurrences(graphs, complete=True)
        for number, (block, names) in enumerate(zip(blocks, found, strict=True)):
            some, places = np.unique(block.labels.cpu().numpy(), return_index=True)
            known = np.isin(some, labels[number])
            for label, row in zip(some[known].tolist(), places[known].tolist(), strict=True):
                if label not in names:
                    nodes, steps = block.nodes[row].tolist(), block.steps[row].tolist()
                    names[label] = kernel._name(texts, number, nodes, steps)
    given: Counter[str] = Counter()
    result = []
    for of_block, names in zip(labels, found, strict=True):
        for name in map(names.__getitem__, of_block.tolist()):
            given[name] += 1
            result.append(name if given[name] == 1 else f"{name} #{given[name]}")
    return result


class GraphTexts:
    """What nodes and edges are called: in molecules by SMARTS, elsewhere by their labels."""

    def __init__(
        self, items: Sequence[Any], graphs: Graphs, node_label: Any, edge_label: Any
    ) -> None:
        self._items, self._node_label, self._edge_label = items, node_label, edge_label
        self._ptr, self._edge_ptr = graphs.ptr.tolist(), graphs.edge_ptr.tolist()
        self._edges = graphs.edge_index.cpu().numpy()
        self._order = np.argsort(self._edges[1], kind="stable")
        self._begin = np.searchsorted(self._edges[1][self._order], np.arange(graphs.num_nodes + 1))
        self._molecules: dict[int, _Molecule | None] = {}
        self._environments: dict[tuple[int, int], str] = {}

    def node(self, node: int) -> str:
        """The name of a node."""
        item, own = place(node, self._ptr)
        molecule = self._molecule(item)
        if molecule is not None:
            return molecule.atoms[own]
        return "*" if self._node_label is None else _text(self._items[item], self._node_label, own)

    def edge(self, edge: int) -> str:
        """The name of an edge between those of two nodes."""
        item, _ = place(edge, self._edge_ptr)
        molecule = self._molecule(item)
        if molecule is not None:
            ends = (self._edges[:, edge] - self._ptr[item]).tolist()
            return molecule.bond(*ends)
        return "-" if self._edge_label is None else f"-{self._edge_text(edge)}-"

    def environment(self, center: int, radius: int) -> str:
        """The name of a node with all within a number of edges, as a tree."""
        item, own = place(center, self._ptr)
        molecule = self._molecule(item)
        if molecule is not None:
            return molecule.environment(own, radius)
        if radius == 0:
            return self.node(center)
        if (center, radius) not in self._environments:
            around = []
            for edge in self._order[self._begin[center] : self._begin[center + 1]].tolist():
                bond = "" if self._edge_label is None else f"{self._edge_text(edge)}:"
                around.append(bond + self.environment(int(self._edges[0, edge]), radius - 1))
            text = ",".join(sorted(around))
            if len(text) > _LONGEST:
                text = f"#{token_hash(text) % 2**64:016x}"
            self._environments[center, radius] = f"{self.node(center)}({text})"
        return self._environments[center, radius]

    def _edge_text(self, edge: int) -> str:
        item, own = place(edge, self._edge_ptr)
        return _text(self._items[item], self._edge_label, own)

    def _molecule(self, item: int) -> _Molecule | None:
        """The molecule of a graph, or None where it has none with the same atoms and bonds."""
        if item not in self._molecules:
            edges = self._edges[:, self._edge_ptr[item] : self._edge_ptr[item + 1]]
            first, end = self._ptr[item : item + 2]
            label = _described(self._items[item], self._node_label)
            mol = None if label is None else _molecule_of(self._items[item])
            if mol is not None:
                bonds = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()]
                ends = sorted(map(tuple, (edges - first).T.tolist()))
                if ends != sorted(bonds + [(v, u) for u, v in bonds]):
                    mol = None
            same = mol is not None and mol.GetNumAtoms() == end - first
            self._molecules[item] = _Molecule(mol, label, self._edge_label) if same else None
        return self._molecules[item]


class _Molecule:
    """A molecule, and SMARTS of its atoms and bonds with what labels tell."""

    def __init__(self, mol: Any, node_label: Any, edge_label: Any) -> None:
        self.mol = mol
        self.atoms = [_atom(atom, node_label) for atom in mol.GetAtoms()]
        known = {} if edge_label is None else _BONDS
        self.bonds = [known.get(bond.GetBondType().name, "~") for bond in mol.GetBonds()]

    def environment(self, atom: int, radius: int) -> str:
        """The SMARTS of an atom with all within a number of bonds."""
        from rdkit import Chem

        found = Chem.FindAtomEnvironmentOfRadiusN(
            self.mol, radius, atom, useHs=True, enforceSize=False
        )
        if not len(found):
            return self.atoms[atom]
        bonds = [self.mol.GetBondWithIdx(i) for i in found]
        atoms = {atom, *(end for b in bonds for end in (b.GetBeginAtomIdx(), b.GetEndAtomIdx()))}
        texts: Any = {"atomSymbols": self.atoms, "bondSymbols": self.bonds, "isomericSmiles": False}
        return str(
            Chem.MolFragmentToSmiles(self.mol, list(atoms), list(found), **texts, rootedAtAtom=atom)
        )

    def bond(self, first: int, second: int) -> str:
        """The SMARTS of the bond of two atoms."""
        return self.bonds[self.mol.GetBondBetweenAtoms(first, second).GetIdx()]


def _described(item: Any, node_label: Any) -> str | None:
    """What labels tell of atoms: ``'none'``, ``'element'``, ``'valence'`` or ``'x'``, all.

    None for labels of other attributes, which atoms are not named by.
    """
    names = {node_label} if isinstance(node_label, str) else set(node_label or ())
    own = isinstance(item, (LabeledData, str)) or not isinstance(item, Data)
    if not names <= ({"x", "valence", "element"} if own else {"x"}):
        return None
    return next((name for name in ("x", "valence", "element") if name in names), "none")


def _atom(atom: Any, label: str) -> str:
    number, charge = atom.GetAtomicNum(), atom.GetFormalCharge()
    if label == "none" or not number:
        return "*"
    if label == "element":
        return f"[#{number}]"
    if label == "valence":
        return f"[#{number}D{atom.GetDegree()}{charge:+d}]"
    symbol = atom.GetSymbol() if number > 1 else "#1"
    symbol = symbol.lower() if atom.GetIsAromatic() else symbol
    charges = f"{charge:+d}" if charge else ""
    ring = "R" if atom.IsInRing() and not atom.GetIsAromatic() else ""
    return f"[{symbol}X{atom.GetTotalDegree()}H{atom.GetTotalNumHs(True)}{ring}{charges}]"


def _molecule_of(item: Any) -> Any:
    if isinstance(item, Data):
        mol = getattr(item, "mol", None)
        item = getattr(item, "smiles", None) if mol is None else mol
    if isinstance(item, str):
        try:
            from rdkit import Chem
        except ImportError:
            return None
        return Chem.MolFromSmiles(item)
    return item


def _text(item: Any, names: Any, row: int) -> str:
    """A label as text: a one-hot row is its column, other rows are in brackets."""
    parts: list[Any] = []
    for name in [names] if isinstance(names, str) else names:
        value = item[name][row]
        found = value.tolist() if isinstance(value, (Tensor, np.generic)) else value
        if isinstance(found, list) and len(found) > 1:
            one_hot = sorted(found) == [0] * (len(found) - 1) + [1]
            found = found.index(1) if one_hot else found
        parts.extend(found if isinstance(found, list) else [found])
    texts = [f"{part + 0:g}" if isinstance(part, float) else str(part) for part in parts]
    return texts[0] if len(texts) == 1 else f"[{' '.join(texts)}]"
