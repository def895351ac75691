import csv
from pathlib import Path

import pytest
from rdkit import Chem, RDConfig

from pyg_kernels.datasets import ChEMBLSulfonamides


def test_potencies_belong_to_their_molecules() -> None:
    molecules = ChEMBLSulfonamides()
    folder = Path(RDConfig.RDContribDir) / "FreeWilson" / "data"
    with open(folder / "CHEMBL2321810_act.csv") as file:
        potency = {name: float(value) for name, value in list(csv.reader(file))[1:]}
    lines = (folder / "CHEMBL2321810.smi").read_text().splitlines()
    assert len(molecules) == len(lines) == 1017
    assert (molecules.target_names, molecules.skipped) == (["potency"], [])
    assert float(molecules.targets.mean()) == pytest.approx(6.55, abs=0.005)
    assert float(molecules.targets.std()) == pytest.approx(1.09, abs=0.005)
    assert (float(molecules.targets.min()), float(molecules.targets.max())) == (4.27, 9.22)
    for k in range(0, 1017, 13):
        smiles, name = lines[k].split()
        assert molecules.row_numbers[k] == k + 1
        assert molecules[k].smiles == molecules.smiles[k] == smiles
        assert float(molecules.targets[k]) == potency[name]
        assert float(molecules[k].y) == pytest.approx(potency[name])
        assert molecules[k].num_nodes == Chem.MolFromSmiles(smiles).GetNumAtoms()
