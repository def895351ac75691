"""The names of the patterns that kernels count."""

from __future__ import annotations

from collections import Counter, defaultdict
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

# The meanings of the flags in the label `role` of `molecule_graphs`.
_ROLES = ("donor", "acceptor", "aromatic", "charge", "halogen", "sulfur")
_LONGEST = 400  # characters of the neighbors in an environment; longer texts become a hash
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
        texts: dict[int, GraphTexts] = {}
        ptr, of_edges = graphs.ptr.tolist(), getattr(kernel, "edge_label", None)
        blocks = kernel._occurrences(graphs, complete=True)
        for number, (block, names) in enumerate(zip(blocks, found, strict=True)):
            some, places = np.unique(block.labels.cpu().numpy(), return_index=True)
            known = np.isin(some, labels[number])
            for label, row in zip(some[known].tolist(), places[known].tolist(), strict=True):
                if label not in names:
                    nodes, steps = block.nodes[row].tolist(), block.steps[row].tolist()
                    i, _ = place(nodes[0], ptr)
                    if i not in texts:
                        texts[i] = GraphTexts(part[i], graphs, i, kernel.node_label, of_edges)
                    names[label] = kernel._name(texts[i], number, nodes, steps)
    given: Counter[str] = Counter()
    result = []
    for of_block, names in zip(labels, found, strict=True):
        for name in map(names.__getitem__, of_block.tolist()):
            given[name] += 1
            result.append(name if given[name] == 1 else f"{name} #{given[name]}")
    return result


class GraphTexts:
    """The names of a graph's nodes and edges: SMARTS for molecules, else made of labels.

    Nodes and edges are numbered consecutively through all graphs that were read together.
    """

    def __init__(
        self, item: Any, graphs: Graphs, number: int, node_label: Any, edge_label: Any
    ) -> None:
        self._item, self._node_label, self._edge_label = item, node_label, edge_label
        self._first, end = graphs.ptr[number : number + 2].tolist()
        self._first_edge, last = graphs.edge_ptr[number : number + 2].tolist()
        self._edges = graphs.edge_index[:, self._first_edge : last].t().tolist()
        self._arriving = defaultdict[int, list[int]](list)
        for edge, (_, target) in enumerate(self._edges, start=self._first_edge):
            self._arriving[target].append(edge)
        self._environments: dict[tuple[int, int], str] = {}
        told = _described(item, node_label)
        mol: Any = None if told is None else _molecule_of(item)
        if mol is not None:
            bonds = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()]
            ends = sorted((u - self._first, v - self._first) for u, v in self._edges)
            same = ends == sorted(bonds + [(v, u) for u, v in bonds])
            mol = mol if same and mol.GetNumAtoms() == end - self._first else None
        self._mol: Any = mol
        if mol is not None:
            self._atoms = [_atom(atom, str(told)) for atom in mol.GetAtoms()]
            known = {} if edge_label is None else _BONDS
            self._bonds = [known.get(bond.GetBondType().name, "~") for bond in mol.GetBonds()]

    def node(self, node: int) -> str:
        """The name of a node."""
        if self._mol is not None:
            return self._atoms[node - self._first]
        return "*" if self._node_label is None else self._text(self._node_label, node - self._first)

    def edge(self, edge: int) -> str:
        """The name of an edge, as written between the names of its two nodes."""
        if self._mol is not None:
            ends = (end - self._first for end in self._edges[edge - self._first_edge])
            return self._bonds[self._mol.GetBondBetweenAtoms(*ends).GetIdx()]
        return "-" if self._edge_label is None else f"-{self._edge_text(edge)}-"

    def environment(self, center: int, radius: int) -> str:
        """The name of a node with all nodes within `radius` edges of it: SMARTS, or a tree."""
        if self._mol is not None:
            return self._smarts(center - self._first, radius)
        if radius == 0:
            return self.node(center)
        if (center, radius) not in self._environments:
            around = []
            for edge in self._arriving[center]:
                bond = "" if self._edge_label is None else f"{self._edge_text(edge)}:"
                source = self._edges[edge - self._first_edge][0]
                around.append(bond + self.environment(source, radius - 1))
            text = ",".join(sorted(around))
            if len(text) > _LONGEST:
                text = f"#{token_hash(text) % 2**64:016x}"
            self._environments[center, radius] = f"{self.node(center)}({text})"
        return self._environments[center, radius]

    def _smarts(self, atom: int, radius: int) -> str:
        from rdkit import Chem

        mol = self._mol
        found = Chem.FindAtomEnvironmentOfRadiusN(mol, radius, atom, useHs=True, enforceSize=False)
        if not len(found):
            return self._atoms[atom]
        number: dict[int, int] = {}  # of each atom in the part; the name depends on this part alone
        part = Chem.PathToSubmol(mol, found, atomMap=number)
        each: Any
        for each in (*part.GetAtoms(), *part.GetBonds()):
            each.SetIsAromatic(False)  # the SMARTS still says it; RDKit refuses it off rings
        back = {new: old for old, new in number.items()}
        ends = ((back[b.GetBeginAtomIdx()], back[b.GetEndAtomIdx()]) for b in part.GetBonds())
        texts: Any = {"isomericSmiles": False, "rootedAtAtom": number[atom]}
        texts["atomSymbols"] = [self._atoms[back[new]] for new in range(len(back))]
        texts["bondSymbols"] = [self._bonds[mol.GetBondBetweenAtoms(*e).GetIdx()] for e in ends]
        return str(Chem.MolFragmentToSmiles(part, list(back), **texts))

    def _edge_text(self, edge: int) -> str:
        return self._text(self._edge_label, edge - self._first_edge)

    def _text(self, names: Any, row: int) -> str:
        """A label as text: the column of a one-hot row, or another row in brackets."""
        parts: list[Any] = []
        for name in [names] if isinstance(names, str) else names:
            value = self._item[name][row]
            found = value.tolist() if isinstance(value, (Tensor, np.generic)) else value
            if name == "role" and isinstance(self._item, LabeledData):
                roles = zip(_ROLES, found, strict=True)
                found = "/".join(f"charge{v:+d}" if r == "charge" else r for r, v in roles if v)
                found = found or "other"
            if isinstance(found, list) and len(found) > 1:
                one_hot = sorted(found) == [0] * (len(found) - 1) + [1]
                found = found.index(1) if one_hot else found
            parts.extend(found if isinstance(found, list) else [found])
        texts = [f"{part + 0:g}" if isinstance(part, float) else str(part) for part in parts]
        return texts[0] if len(texts) == 1 else f"[{' '.join(texts)}]"


def _described(item: Any, node_label: Any) -> str | None:
    """What labels say about atoms: ``'none'``, ``'element'``, ``'valence'``, or ``'x'`` for all.

    None for labels of other attributes: these do not name atoms.
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
