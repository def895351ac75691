"""Molecules in kernels: SMILES and RDKit's molecules, their labels, and the sum for properties."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("rdkit")

from rdkit import Chem
from torch_geometric.data import Batch

from pyg_kernels.kernels import (
    KernelGP,
    LabelSequenceKernel,
    RandomWalkKernel,
    ShortestPathKernel,
    VectorKernel,
    WLSubtreeKernel,
    molecule_graphs,
    molecule_kernels,
)

SMILES = ["CCO", "c1ccccc1O", "[Na+].[Cl-]", "C", "C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "F/C=C/F"]


@pytest.mark.parametrize(
    "kernel",
    [
        WLSubtreeKernel(2, edge_label="edge_attr"),
        LabelSequenceKernel(3),
        ShortestPathKernel(),
        VectorKernel(),
        RandomWalkKernel(2, node_feature=None, edge_feature=None),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_smiles_molecules_and_graphs_are_alike(kernel: WLSubtreeKernel) -> None:
    expected = kernel(molecule_graphs(SMILES))
    for molecules in (
        SMILES,
        np.array(SMILES, dtype=object),
        [Chem.MolFromSmiles(s) for s in SMILES],
    ):
        torch.testing.assert_close(kernel(molecules), expected)


def test_labels_tell_stereo_and_charge() -> None:
    pairs = [
        ("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"),
        ("F/C=C/F", "F/C=C\\F"),
        ("CC(=O)O", "CC(=O)[O-]"),
    ]
    kernel = WLSubtreeKernel(1, edge_label="edge_attr", compare="minmax")
    for pair in pairs:
        assert float(kernel(pair)[0, 1]) < 1


def test_a_process_on_smiles() -> None:
    """Reads them once for all kernels; one molecule without bonds and one atom are ordinary."""
    alkanes = ["C" * n + end for n in range(1, 13) for end in ("", "O", "N")]
    y = np.array([len(s) + 2.0 * s.endswith("O") for s in alkanes])
    process = KernelGP(molecule_kernels(), random_state=0).fit(alkanes[:-6], y[:-6])
    mean, std = process.predict(alkanes[-6:], return_std=True)
    assert np.abs(mean - y[-6:]).max() < 1.0
    assert (std > 0).all()
    np.testing.assert_allclose(process.predict(molecule_graphs(alkanes[-6:])), mean)
    assert np.isfinite(process.predict(["[Na+].[Cl-]"])).all()


def test_what_is_no_smiles_is_named() -> None:
    with pytest.raises(ValueError, match="molecule 1, 'C1CC', is not a SMILES"):
        molecule_graphs(["CC", "C1CC"])


def test_benchmark_on_a_set_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks.molecule_gp import main

    rows = [
        f"{'C' * n + end},{n},{'test' if n % 4 == 0 else 'train'},{n % 2}"
        for n in range(1, 17)
        for end in ("", "O", "N")
    ]
    file = tmp_path / "alkanes.csv"
    file.write_text("\n".join(["smiles,y,split,cliff_mol", *rows]))
    assert main([str(file), "--out", str(tmp_path / "found.json")]) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert [row["model"] for row in found] == ["sum", "wl", "fingerprints"]
    assert all(np.isfinite(row["rmse"]) for row in found)
    assert "mean of 1" in capsys.readouterr().out
    file.write_text("smiles,y\nC,1")
    assert main([str(file)]) == 2
    assert "has no column 'split'" in capsys.readouterr().err


def test_descriptors_that_differ_in_their_last_digit_are_constant() -> None:
    """RDKit adds them up in the order of atoms, so that isomers' differ by rounding."""
    isomers = ["CC(=O)Nc1ccc(Cl)cc1", "CC(=O)Nc1cccc(Cl)c1", "CC(=O)Nc1ccccc1Cl"]
    process = KernelGP(molecule_kernels(), random_state=0).fit(isomers, [1.0, 2.0, 3.0])
    mean, std = process.predict(["CCO", "CC(=O)Nc1ccc(F)cc1"], return_std=True)
    assert np.abs(mean).max() < 10 and std.max() < 10


def test_vectors_of_a_batch_and_of_one_graph() -> None:
    graphs = molecule_graphs(["CCO", "C", "CC"])
    expected = VectorKernel()(graphs)
    torch.testing.assert_close(VectorKernel()(Batch.from_data_list(graphs)), expected)
    assert VectorKernel().fit(graphs).transform(graphs[0]).shape == (1, 3)


def test_what_is_no_molecule_or_length_is_named() -> None:
    with pytest.raises(TypeError, match="molecule 1 is a int"):
        molecule_graphs(["CC", 3])
    for lengths in (1.0, (float("inf"),), (0.0,)):
        with pytest.raises(ValueError, match="expected finite numbers above 0"):
            VectorKernel(lengths=lengths).fit(["CC"])  # type: ignore[arg-type]
