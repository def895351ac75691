"""Real molecules with a target that comes from known atoms."""

import torch
from rdkit import Chem, rdBase
from torch import Tensor

from pyg_kernels.chem.encoding import parse
from pyg_kernels.datasets.molecules import MoleculeDataset

ARYL_FLUORIDE = "cF"


def planted_substructure(
    molecules: MoleculeDataset, smarts: str = ARYL_FLUORIDE
) -> tuple[MoleculeDataset, list[Tensor]]:
    """Real molecules whose target is how often a functional group occurs in them.

    A group is a useful target if its number varies and no kind of atom gives it away. The default
    is one: in :class:`~pyg_kernels.datasets.ChEMBLSulfonamides`, 516, 313, 161 and 27 molecules
    have 0, 1, 2 and 3 fluorine atoms on aromatic rings; these and their carbons are 4.3% of all
    atoms. 247 molecules have fluorine in a trifluoromethyl group, which does not count. In
    :class:`~pyg_kernels.datasets.CEP`, thiophene, ``'c1ccsc1'``, is such a group: molecules have 0
    to 7 of its rings, a fifth of all atoms, beside thiadiazoles and thiazoles.

    Args:
        molecules: any data set of molecules, or a view of one; its targets are ignored.
        smarts: the group as a SMARTS pattern. Matches with the same atoms count once; matches may
            overlap, as fused rings do.

    Returns:
        molecules: the same molecules with this target.
        evidence: for each molecule (N,) bool, whether each atom belongs to the group.
    """
    with rdBase.BlockLogs():
        pattern = Chem.MolFromSmarts(smarts)
    if pattern is None or not pattern.GetNumAtoms():
        raise ValueError(f"smarts must be a SMARTS pattern with at least one atom, got {smarts!r}")
    found = [_matched(text, pattern) for text in molecules.smiles]
    counts, evidence = [count for count, _ in found], [atoms for _, atoms in found]
    if len(set(counts)) < 2:
        raise ValueError(
            f"smarts {smarts!r} must occur more often in some molecules than in others, but the "
            f"{len(counts)} molecules have it {counts[0]} times each"
        )
    featurizer = molecules.featurizer
    made = MoleculeDataset.from_smiles(molecules.smiles, counts, [smarts], featurizer=featurizer)
    return made, evidence


def _matched(smiles: str, pattern: Chem.Mol) -> tuple[int, Tensor]:
    """How often the pattern occurs in a molecule, and which of its atoms belong to it."""
    molecule = parse(smiles)
    # RDKit stops at 1000 matches by default.
    matches = molecule.GetSubstructMatches(pattern, maxMatches=2**31 - 1)
    atoms = torch.zeros(molecule.GetNumAtoms(), dtype=torch.bool)
    atoms[[atom for match in matches for atom in match]] = True
    return len(matches), atoms
