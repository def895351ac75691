"""Why an estimator says what it says: shares of atoms, bonds and walks."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from rdkit import Chem
from sklearn.pipeline import make_pipeline

from pyg_kernels import kernels
from pyg_kernels.explain import draw_molecule, model_contributions
from pyg_kernels.molecules.inputs import Molecules
from pyg_kernels.molecules.methods import KernelMethod, Task
from pyg_kernels.molecules.trees import MoleculeTrees
from pyg_kernels.nn import GraphKernelNet, RandomWalkNet, WLKernelNet

Walks = list[tuple[tuple[int, ...], float]]
_Parts = tuple[Any, NDArray[Any], Sequence[Any], Any]  # atoms, bonds, walks, and their sum


@dataclass(frozen=True)
class MoleculeExplanation:
    """The shares of atoms and bonds in the predictions for M molecules.

    In regression, the prediction is explained, in the target's units; where ``spikes_`` has a
    value, it is the target's value elsewhere, or that it is elsewhere. In classification, the mean
    over members of the log odds of the second class, or of the logit of the class, is explained;
    for processes, their posterior means.

    Attributes:
        smiles: The molecules; atoms are counted in their order.
        output: The values that are explained, ``(M,)``.
        atoms: For each molecule the shares of its atoms, ``(N,)``. With `constant` they add up to
            `output`.
        bonds: The shares of its bonds, in RDKit's order: another way to divide the same sum,
            without walks of one atom.
        walks: The k walks of largest absolute value: the atoms, first to last, and the value.
        constant: What no walk adds, ``(M,)``; for kernel methods, what no pattern adds:
            descriptors, extra columns and the mean. Kernel methods have shares of atoms only.
    """

    smiles: list[str]
    output: NDArray[np.float64]
    atoms: list[NDArray[np.float64]]
    bonds: list[NDArray[np.float64]]
    walks: list[Walks]
    constant: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.smiles)

    def draw(self, i: int, **options: Any) -> bytes:
        """Molecule i with coloured atoms and bonds: red adds, blue takes away.

        Args:
            i: Its position.
            **options: Of :func:`~pyg_kernels.explain.draw_molecule`; an SVG by default.
        """
        atoms, bonds = self.atoms[i].tolist(), self.bonds[i].tolist()
        ends = torch.tensor(_ends(Chem.MolFromSmiles(self.smiles[i])), dtype=torch.long)
        return draw_molecule(self.smiles[i], atoms, bonds, ends.reshape(-1, 2).t(), **options)

    def to_frame(self) -> pd.DataFrame:
        """A row for each atom, bond and walk of each molecule, and one for its constant.

        Bonds are left out where none has a share, as with processes. The columns are the position
        of the molecule, its SMILES, the part, its atoms from first to last, their symbols, and the
        share.
        """
        rows = []
        for i, smiles in enumerate(self.smiles):
            mol = Chem.MolFromSmiles(smiles)
            parts: list[tuple[str, Any, float]] = [("constant", (), self.constant[i])]
            parts += [("atom", (atom,), share) for atom, share in enumerate(self.atoms[i])]
            bonds: Any = self.bonds[i] if np.any(self.bonds[i]) else []
            parts += [("bond", ends, share) for ends, share in zip(_ends(mol), bonds, strict=False)]
            parts += [("walk", atoms, share) for atoms, share in self.walks[i]]
            for part, atoms, share in parts:
                symbols = "-".join(mol.GetAtomWithIdx(int(atom)).GetSymbol() for atom in atoms)
                rows.append((i, smiles, part, "-".join(map(str, atoms)), symbols, share))
        columns = ["molecule", "smiles", "part", "atoms", "symbols", "share"]
        return pd.DataFrame(rows, columns=columns)

    def to_html(self, path: str | Path) -> None:
        """Writes a page with all drawings and walks."""
        page = (
            "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
            "<title>Explained predictions</title></head>\n"
            f"<body>\n{self._repr_html_()}</body></html>\n"
        )
        Path(path).write_text(page, encoding="utf-8")

    def _repr_html_(self) -> str:
        return "\n".join(self._section(i) for i in range(len(self)))

    def _section(self, i: int) -> str:
        svg = self.draw(i).decode()
        svg = svg[svg.index("<svg") :]
        atoms = [atom.GetSymbol() for atom in Chem.MolFromSmiles(self.smiles[i]).GetAtoms()]
        rows = ""
        for walk, value in self.walks[i]:
            name = "-".join(f"{atoms[atom]}{atom}" for atom in walk)
            rows += f"<tr><td>{escape(name)}</td><td>{value:+.4g}</td></tr>"
        table = f"<table><tr><th>walk</th><th>adds</th></tr>{rows}</table>" if rows else ""
        return (
            f"<section><h3>{escape(self.smiles[i])}: {self.output[i]:.4g}</h3>\n{svg}\n"
            f"<p>{self.constant[i]:.4g} without any walk</p>{table}</section>"
        )


PROCESSES = ("gp", "pooled", "wl-gp")  # processes that mostly count patterns


def _ends(mol: Any) -> list[tuple[int, int]]:
    return [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds()]


def explained(
    members: Sequence[tuple[Any, float]], task: Task, molecules: Molecules, k: int, target: int
) -> MoleculeExplanation:
    """The explanation of a mixture: the shares of its members, times their weights.

    The walks are exact for one member; for several, the best walks of each are added up.
    """
    if not 0 <= target < task.num_outputs:
        raise ValueError(f"target={target} with {task.num_outputs} outputs")
    number = len(task.spikes)
    kinds = {isinstance(member, KernelMethod) for member, weight in members if weight}
    if target >= number > 0 and len(kinds) > 1:
        raise ValueError(f"target={target} is a share of kernel methods, log odds of networks")
    parsed = molecules.rdkit()
    atoms = [np.zeros(mol.GetNumAtoms()) for mol in parsed]
    bonds = [np.zeros(mol.GetNumBonds()) for mol in parsed]
    walks: list[dict[tuple[int, ...], float]] = [defaultdict(float) for _ in parsed]
    output = np.zeros(len(parsed))
    for member, weight in members:
        explain = _of_kernels if isinstance(member, KernelMethod) else _of_network
        scale, mean = 1.0, 0.0
        if task.kind == "regression" and member.model not in PROCESSES:
            scale, mean = float(member.std[target]), float(member.mean[target])
        parts = explain(member, molecules, k, target) if weight else ()
        for i, (own_atoms, own_bonds, own_walks, said) in enumerate(parts):
            atoms[i] += weight * scale * np.asarray(own_atoms, dtype=np.float64)
            bonds[i] += weight * scale * own_bonds
            output[i] += weight * (scale * float(said) + mean)
            for walk, value in own_walks:
                walks[i][tuple(walk)] += float(weight * scale * value)
    constant = output - np.array([shares.sum() for shares in atoms])
    best = [sorted(each.items(), key=lambda item: -abs(item[1]))[:k] for each in walks]
    return MoleculeExplanation(molecules.smiles, output, atoms, bonds, best, constant)


def _of_network(member: Any, molecules: Molecules, k: int, target: int) -> Iterator[_Parts]:
    net = member.net
    if not isinstance(net.net, (GraphKernelNet, RandomWalkNet, WLKernelNet)):
        raise ValueError(
            f"model={member.model!r} is not a sum over walks: 'wl', 'wl-gated', 'graph-kernel', "
            "'random-walk' and 'gated-walk' are"
        )
    device = next(net.parameters()).device
    graphs = zip(molecules.dataset(member.featurizer), molecules.rdkit(), strict=True)
    for number, (graph, mol) in enumerate(graphs):
        graph = graph.to(device)
        said = model_contributions(
            _with_extra(net, molecules.extra[number]),
            graph.x,
            graph.edge_index,
            edge_attr=graph.edge_attr,
            target=target,
            k=k,
        )
        bonds = np.zeros(mol.GetNumBonds())
        for (a, b), share in zip(graph.edge_index.t().tolist(), said.edges.tolist(), strict=True):
            bonds[mol.GetBondBetweenAtoms(a, b).GetIdx()] += share
        yield said.nodes.cpu(), bonds, [walk[:2] for walk in said.walks], said.output


def _with_extra(net: Any, extra: NDArray[np.float64]) -> Any:
    """The network for a molecule with these extra columns, whose map is added to a bias."""
    if net.lin_extra is None:
        return net.net
    fixed = copy.deepcopy(net)
    row = torch.from_numpy(extra).float().to(fixed.lin_extra.weight.device)
    with torch.no_grad():
        fixed.reader().bias += fixed.lin_extra(row)
    return fixed.net


def _row_of_class(member: Any, seen: NDArray[Any], target: int) -> tuple[int, float]:
    """The position and sign of a class's function in a classifier; two classes share one."""
    places = np.flatnonzero(seen == target)
    if not len(places):
        raise ValueError(f"target={target}: model={member.model!r} saw none of this class")
    place = int(places[0])
    return (0, 2.0 * place - 1) if len(seen) == 2 else (place, 1.0)


def _of_kernels(member: Any, molecules: Molecules, k: int, target: int) -> Iterator[_Parts]:
    """Shares of atoms only: what the count of a pattern adds is divided among its atoms."""
    graphs = molecules.graphs()
    row, sign, models = target, 1.0, []
    shares: Any = np.ones((1, len(graphs)))
    if member.model in PROCESSES and (member.is_regression or member.model != "pooled"):
        models = member.pool
        if member.task.kind == "multiclass":
            row, sign = _row_of_class(member, models[0].classes_[0], target)
        if len(models) > 1:
            shares = member.pooled(graphs)[1][:, :, target]
    elif member.model == "wl-ridge" and not molecules.columns:
        place, row = target, 0
        if member.task.kind == "multiclass":
            place = 0
            row, sign = _row_of_class(member, member.estimators[0].classes_, target)
        models = [make_pipeline(member.counting(), member.estimators[place])]
    else:
        raise ValueError(
            f"model={member.model!r} cannot be explained here: networks of this package can, "
            f"{', '.join(map(repr, PROCESSES))} (the second in regression), and 'wl-ridge' without "
            "extra columns"
        )
    for graph, mol, own in zip(graphs, molecules.rdkit(), shares.T, strict=True):
        parts = [
            model.explain(graph, row)
            if isinstance(model, MoleculeTrees)
            else kernels.explain(model, graph, row)
            for model in models
        ]
        atoms = sign * sum(share * part.atoms for share, part in zip(own, parts, strict=True))
        said = sign * sum(share * part.prediction for share, part in zip(own, parts, strict=True))
        yield atoms, np.zeros(mol.GetNumBonds()), [], said
