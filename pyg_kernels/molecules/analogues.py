"""Molecules similar to given ones, for networks to learn what other models predict of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
from rdkit import Chem, rdBase

from pyg_kernels.molecules.inputs import Molecules

MOST = 4  # atoms that change
TRIES = 10  # for each analogue


def analogues(molecules: Molecules, number: int, seed: int) -> Molecules:
    """Makes new molecules from given ones by changing the elements of one to four atoms.

    A new element is drawn from the atoms of the given molecules that have as many neighbours and
    bonds, and are also in a ring or not. Charged atoms, radicals, isotopes and hydrogen do not
    change. Molecules that RDKit does not accept are left out.

    Args:
        molecules: The molecules.
        number: N, the number of analogues; there are fewer if 10 N tries do not find so many.
        seed: The seed of all draws.

    Returns:
        The N analogues, as canonical SMILES, with the extra numbers ``(N, E)`` of the molecules
        that they were made of.

    Raises:
        ValueError: If molecules cannot be read, with their positions.
    """
    random = np.random.default_rng(seed)
    kekulized = [Chem.Mol(molecule) for molecule in molecules.rdkit()]
    elements: dict[Any, Counter[int]] = defaultdict(Counter)
    known = set()
    for molecule in kekulized:
        known.add(Chem.MolToSmiles(molecule))
        Chem.Kekulize(molecule, clearAromaticFlags=True)
        for atom in filter(_may_change, molecule.GetAtoms()):
            elements[_surroundings(atom)][atom.GetAtomicNum()] += 1
    found, parents = list[str](), list[int]()
    with rdBase.BlockLogs():
        for _ in range(TRIES * number):
            if len(found) == number:
                break
            parent = int(random.integers(len(kekulized)))
            smiles = _changed(kekulized[parent], elements, random)
            if smiles is not None and smiles not in known:
                known.add(smiles)
                found.append(smiles)
                parents.append(parent)
    return Molecules(found, molecules.columns, molecules.extra[parents])


def _may_change(atom: Any) -> bool:
    plain = not (atom.GetFormalCharge() or atom.GetIsotope() or atom.GetNumRadicalElectrons())
    return plain and atom.GetAtomicNum() > 1


def _surroundings(atom: Any) -> tuple[int, int, bool]:
    bonds = sum(bond.GetBondTypeAsDouble() for bond in atom.GetBonds())
    return atom.GetDegree(), int(bonds), atom.IsInRing()


def _changed(molecule: Any, elements: dict[Any, Counter[int]], random: Any) -> str | None:
    """The SMILES of a molecule with other elements; None where there is no such molecule."""
    changed = Chem.RWMol(molecule)
    for _ in range(random.integers(1, MOST + 1)):
        atom = changed.GetAtomWithIdx(int(random.integers(changed.GetNumAtoms())))
        others = Counter(elements[_surroundings(atom)]) if _may_change(atom) else Counter()
        del others[atom.GetAtomicNum()]
        if others:
            counts = np.array(list(others.values()))
            atom.SetAtomicNum(int(random.choice(list(others), p=counts / counts.sum())))
            atom.SetNoImplicit(False)
            atom.SetNumExplicitHs(0)
    try:
        Chem.SanitizeMol(changed)
        smiles = Chem.MolToSmiles(changed)
    except ValueError:
        return None
    return smiles if Chem.MolFromSmiles(smiles) is not None else None
