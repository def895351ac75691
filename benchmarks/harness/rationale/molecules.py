"""Molecules with a count of a functional group, or a measured potency."""

import hashlib
from typing import Any

import torch
from torch import Tensor

from benchmarks.corpora.planted_substructure import ARYL_FLUORIDE, PlantedSubstructure
from benchmarks.harness.errors import as_input_error
from benchmarks.harness.rationale.items import Items, RationaleChoice
from benchmarks.harness.task import PARTS
from pyg_kernels.datasets import (
    CEP,
    ChEMBLSulfonamides,
    MoleculeDataset,
    MoleculeLoader,
    random_split,
)
from pyg_kernels.explain.pictures import draw_molecule

THIOPHENE = "c1ccsc1"
PIXELS = (420, 280)


class MoleculeItems(Items):
    """Molecules in parts.

    Args:
        molecules: Of one target.
        parts: Of :data:`PARTS`, positions.
        evidence: For each molecule the atoms that make its target, where that is known.
        split (str): How the parts came about.
        choice: Where they come from.
    """

    kind = "molecules"
    unit = "atoms"
    classes = ()

    def __init__(
        self,
        molecules: MoleculeDataset,
        parts: dict[str, Tensor],
        evidence: list[Tensor] | None,
        split: str,
        choice: RationaleChoice,
    ) -> None:
        self.molecules, self.parts, self.split, self.choice = molecules, parts, split, choice
        self.y = molecules.targets[:, 0]
        (self.target,) = molecules.target_names
        self.evidence = evidence or [None] * len(molecules)
        ptr = molecules.slices["atom_codes"] if molecules.slices else torch.zeros(1)
        self.lengths = ptr.diff()

    def identity(self) -> dict[str, Any]:
        """The number of molecules, and a fingerprint of molecules, targets and parts."""
        content = hashlib.sha256(repr(self.molecules.smiles).encode())
        for numbers in (self.y, *(self.parts[part] for part in PARTS)):
            content.update(numbers.contiguous().numpy().tobytes() + b";")
        return {"number": len(self.molecules), "digest": content.hexdigest()[:16]}

    def describe(self) -> str:
        """Lines on molecules and parts, and on the atoms that make the target."""
        sizes = ", ".join(f"{len(self.parts[part]):,} {part}" for part in PARTS)
        return (
            f"{self.choice.dataset}: {len(self.molecules):,} molecules, {self.target}, "
            f"{self.split}: {sizes}\n"
            f"{self.lengths.double().mean():.1f} atoms a molecule; {self.evidence_line()}"
        )

    def text(self, place: int) -> str:
        """Its SMILES string."""
        return self.molecules.smiles[place]

    def marked(self, place: int, chosen: Tensor, evidence: Tensor | None) -> str:
        """Its drawing, selected atoms in colour; evidence has a line of its own."""
        drawing = draw_molecule(self.molecules.smiles[place], chosen.double(), scale=1.0)
        known = "" if evidence is None else _atoms(evidence)
        return f"{drawing.decode().partition('?>')[2]}{known}"

    def picture(self, place: int, chosen: Tensor) -> bytes:
        """Its drawing, selected atoms in colour."""
        smiles, marks = self.molecules.smiles[place], chosen.double()
        return draw_molecule(smiles, marks, scale=1.0, size=PIXELS, file_format="png")

    def input_sizes(self, embedding_dim: int) -> dict[str, Any]:
        """Of the features of atoms and bonds."""
        one = self.molecules[0]
        return {"input_size": one.x.size(1), "edge_dim": one.edge_attr.size(1)}

    def loader(self, part: str, batch_size: int, bucket: bool = False, **options: Any) -> Any:
        """Batches of a part; `bucket` has no effect."""
        return MoleculeLoader(self.molecules, self.parts[part], batch_size, **options)


def _atoms(evidence: Tensor) -> str:
    places = evidence.nonzero().flatten().tolist()
    return f"<p>Atoms that say it: {', '.join(map(str, places)) or 'none'}</p>"


def load_molecules(choice: RationaleChoice) -> MoleculeItems:
    """Reads molecules: those of the ChEMBL assay, or of CEP where a folder is named.

    Raises:
        InputError: If a file is neither at hand nor to be downloaded, cannot be read, or the group
            does not vary.
    """
    with as_input_error():
        molecules = CEP(choice.root) if choice.root else ChEMBLSulfonamides()
        if choice.dataset == "chembl":
            split = random_split(len(molecules), seed=choice.split_seed)
            evidence = None
        else:
            smarts = choice.smarts or (THIOPHENE if choice.root else None)
            molecules = PlantedSubstructure(
                molecules, smarts or ARYL_FLUORIDE, seed=choice.split_seed
            )
            split, evidence = molecules.split, molecules.evidence
    parts = {part: torch.as_tensor(getattr(split, part)) for part in PARTS}
    named = f"random split (seed {choice.split_seed})"
    return MoleculeItems(molecules, parts, evidence, named, choice)
