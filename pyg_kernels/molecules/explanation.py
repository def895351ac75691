"""Why an estimator says what it says: shares of atoms, bonds and walks."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Sequence
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
from pyg_kernels.molecules.methods import KernelMethod, Method, Task
from pyg_kernels.nn import GraphKernelNet, RandomWalkNet, WLKernelNet

Walks = list[tuple[tuple[int, ...], float]]


@dataclass(frozen=True)
class MoleculeExplanation:
    """The shares of atoms and bonds in what is predicted of M molecules.

    Of regression the prediction is explained, in the target's units; of classes the mean over the
    members of the log odds of the second class, or of the logit of the class.

    Attributes:
        smiles: The molecules; atoms are counted in their order.
        output: What is explained, ``(M,)``.
        atoms: For each molecule the shares of its atoms, ``(N,)``. With `constant` they add up to
            `output`.
        bonds: The shares of its bonds, in the order of RDKit's; another way to divide the same sum,
            but for walks of one atom.
        walks: The k walks that add most, by absolute value: atoms, first to last, and value.
        constant: What no walk adds, ``(M,)``; of kernel methods, what no pattern adds: descriptors,
            extra columns and the mean. Kernel methods share out among atoms alone.
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
        mol = Chem.MolFromSmiles(self.smiles[i])
        atoms, bonds = self.atoms[i].tolist(), self.bonds[i].tolist()
        if not bonds:
            return draw_molecule(self.smiles[i], atoms, **options)
        ends = torch.tensor(_ends(mol)).t()
        return draw_molecule(self.smiles[i], atoms, bonds, ends, **options)

    def to_frame(self) -> pd.DataFrame:
        """A row for each atom, bond and walk of each molecule, and one for its constant.

        Columns are the position of the molecule, its SMILES, the part, its atoms from first to
        last, their symbols, and the share.
        """
        rows = []
        for i, smiles in enumerate(self.smiles):
            mol = Chem.MolFromSmiles(smiles)
            parts: list[tuple[str, Any, float]] = [("constant", (), self.constant[i])]
            parts += [("atom", (atom,), share) for atom, share in enumerate(self.atoms[i])]
            parts += [("bond", ends, n) for ends, n in zip(_ends(mol), self.bonds[i], strict=True)]
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
        mol = Chem.MolFromSmiles(self.smiles[i])
        rows = "".join(
            f"<tr><td>{escape(_walk_name(mol, walk))}</td><td>{value:+.4g}</td></tr>"
            for walk, value in self.walks[i]
        )
        table = f"<table><tr><th>walk</th><th>adds</th></tr>{rows}</table>" if rows else ""
        return (
            f"<section><h3>{escape(self.smiles[i])}: {self.output[i]:.4g}</h3>\n{svg}\n"
            f"<p>{self.constant[i]:.4g} without any walk</p>{table}</section>"
        )


def _ends(mol: Any) -> list[tuple[int, int]]:
    return [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in mol.GetBonds()]


def _walk_name(mol: Any, walk: Sequence[int]) -> str:
    return "-".join(f"{mol.GetAtomWithIdx(i).GetSymbol()}{i}" for i in walk)


def explained(
    members: Sequence[tuple[Method, float]], task: Task, molecules: Molecules, k: int, target: int
) -> MoleculeExplanation:
    """The explanation of a mixture: the shares of its members, times their weights.

    Walks are exact for one member; of several they are the best ones of each, added up.

    Args:
        members: The fitted members and their weights.
        task: What they learned.
        molecules: What to explain, extra columns standardized.
        k: How many walks.
        target: Which output.

    Raises:
        ValueError: If there is no such output, or a member cannot be explained.
    """
    if not 0 <= target < task.num_outputs:
        raise ValueError(f"target={target} with {task.num_outputs} outputs")
    parsed = molecules.rdkit()
    atoms = [np.zeros(mol.GetNumAtoms()) for mol in parsed]
    bonds = [np.zeros(mol.GetNumBonds()) for mol in parsed]
    walks: list[dict[tuple[int, ...], float]] = [defaultdict(float) for _ in parsed]
    output, constant = np.zeros(len(parsed)), np.zeros(len(parsed))
    for member, weight in members:
        if not weight:
            continue
        explain = _of_kernels if isinstance(member, KernelMethod) else _of_network
        for i, found in enumerate(explain(member, molecules, k, target)):
            atoms[i] += weight * found.atoms
            bonds[i] += weight * found.bonds
            output[i] += weight * found.output
            constant[i] += weight * found.constant
            for walk, value in found.walks:
                walks[i][walk] += float(weight * value)
    best = [sorted(each.items(), key=lambda item: -abs(item[1]))[:k] for each in walks]
    return MoleculeExplanation(molecules.smiles, output, atoms, bonds, best, constant)


@dataclass(frozen=True)
class _Parts:
    """The explanation of one molecule by one member."""

    atoms: NDArray[np.float64]
    bonds: NDArray[np.float64]
    walks: Walks
    output: float
    constant: float


def _of_network(member: Any, molecules: Molecules, k: int, target: int) -> list[_Parts]:
    net = member.net
    if not isinstance(net.net, (GraphKernelNet, RandomWalkNet, WLKernelNet)):
        raise ValueError(
            f"model={member.model!r} is no sum over walks: 'wl', 'wl-gated', 'graph-kernel', "
            "'random-walk' and 'gated-walk' are"
        )
    regression = member.task.kind == "regression"
    scale = float(member.std[target]) if regression else 1.0
    mean = float(member.mean[target]) if regression else 0.0
    device = next(net.parameters()).device
    found = []
    for number, (graph, mol) in enumerate(
        zip(molecules.dataset(member.featurizer), molecules.rdkit(), strict=True)
    ):
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
            bonds[mol.GetBondBetweenAtoms(a, b).GetIdx()] += scale * share
        output = scale * float(said.output) + mean
        walks = [(tuple(walk[0]), scale * float(walk[1])) for walk in said.walks]
        atoms = scale * said.nodes.cpu().numpy().astype(np.float64)
        found.append(_Parts(atoms, bonds, walks, output, output - float(atoms.sum())))
    return found


def _with_extra(net: Any, extra: NDArray[np.float64]) -> Any:
    """The network for molecules with these extra columns, which become a part of a bias."""
    if net.lin_extra is None:
        return net.net
    fixed = copy.deepcopy(net)
    row = torch.from_numpy(extra).float().to(fixed.lin_extra.weight.device)
    with torch.no_grad():
        fixed.reader().bias += fixed.lin_extra(row)
    return fixed.net


def _of_kernels(member: Any, molecules: Molecules, k: int, target: int) -> list[_Parts]:
    """Shares of atoms alone: what counts of patterns add, divided among their atoms."""
    regression, row = member.task.kind == "regression", target
    scale, mean = 1.0, 0.0
    if member.model in ("gp", "wl-gp") and regression:
        model = member.processes[0]
    elif member.model == "wl-ridge" and not molecules.columns:
        place = 0 if member.task.kind == "multiclass" else target
        row = target - place
        model = make_pipeline(member.counting(), member.estimators[place])
        if regression:
            scale, mean = float(member.std[target]), float(member.mean[target])
    else:
        raise ValueError(
            f"model={member.model!r} cannot be explained here: networks of this package can, "
            "'gp' and 'wl-gp' in regression, and 'wl-ridge' without extra columns"
        )
    found = []
    for graph, mol in zip(molecules.graphs(), molecules.rdkit(), strict=True):
        parts = kernels.explain(model, graph, row)
        atoms = scale * np.asarray(parts.atoms, dtype=np.float64)
        output = scale * parts.prediction + mean
        nothing = np.zeros(mol.GetNumBonds())
        found.append(_Parts(atoms, nothing, [], output, output - float(atoms.sum())))
    return found
