"""Molecules in kernels: SMILES and RDKit's molecules, their labels, and the sum for properties."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("rdkit")

from rdkit import Chem
from sklearn.base import clone
from torch_geometric.data import Batch, Data

from pyg_kernels.chem import DefaultFeaturizer, InvalidSmiles, MolFeaturizer
from pyg_kernels.datasets import MoleculeDataset
from pyg_kernels.kernels import (
    DeepGraphKernel,
    DiscreteRelabeling,
    Kernel,
    KernelGP,
    MoleculeSimilarity,
    RandomWalkKernel,
    VectorKernel,
    WLKernel,
    WLSubtreeKernel,
    molecule_graphs,
    molecule_kernels,
    similarity,
)
from tests.kernels.cases import close, identified
from tests.kernels.definitions import defined

SMILES = ["CCO", "c1ccccc1O", "[Na+].[Cl-]", "C", "C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "F/C=C/F"]

READERS = [WLSubtreeKernel(edge_label="edge_attr"), VectorKernel(), RandomWalkKernel(2), WLKernel()]


@identified(READERS)
def test_smiles_molecules_and_graphs_are_alike(kernel: Kernel) -> None:
    graphs, molecules = molecule_graphs(SMILES), [Chem.MolFromSmiles(s) for s in SMILES]
    expected, strings = kernel(graphs), np.array(SMILES, dtype=object)
    for form in (Batch.from_data_list(graphs), SMILES, strings, pd.Series(SMILES), molecules):
        torch.testing.assert_close(kernel(form), expected)
    assert kernel.fit(molecules).transform(molecules[1]).shape[0] == 1
    if not isinstance(kernel, VectorKernel):
        for one in (SMILES[1], molecules[1]):
            torch.testing.assert_close(kernel(one, molecules), expected[1:2])
    with pytest.raises(ValueError, match="molecule 2: cannot read the SMILES 'C1CC': it is not w"):
        kernel([*SMILES[:2], "C1CC"])
    with pytest.raises(TypeError, match="graph 2 is a NoneType: expected a"):
        kernel([*SMILES[:2], None])


WALKS = WLKernel(RandomWalkKernel(1), DiscreteRelabeling(edge_label="edge_attr"), 2)


@identified([WLSubtreeKernel(2, edge_label="edge_attr", output="gram"), WALKS])
def test_data_sets(kernel: Any) -> None:
    """A data set of molecules equals its batch, list and slices; distinct rows are labels."""
    dataset, every = MoleculeDataset.from_smiles(SMILES), range(len(SMILES))
    expected = defined(kernel, list(dataset)).to(kernel(dataset).dtype)
    for graphs in (dataset, list(dataset), dataset.batch(every)):
        close(kernel(graphs), expected)
        close(torch.from_numpy(kernel.fit(dataset).transform(graphs)), expected)
    close(kernel(dataset[every[::-1]], dataset), expected.flip(0))
    close(kernel(dataset[1:3]), expected[1:3, 1:3])


@identified([WLSubtreeKernel(2), DeepGraphKernel(), WLKernel(), WLKernel(RandomWalkKernel(2))])
def test_featurizers(kernel: Any) -> None:
    """A kernel has a featurizer of its own, or that of its base kernel."""
    name = "base__featurizer" if getattr(kernel, "base", None) else "featurizer"

    def make(featurizer: Any) -> Kernel:
        return clone(kernel).set_params(**{name: featurizer})

    def by_hand(molecule: str) -> Data:
        return Data(x=torch.eye(2)[: len(molecule)], edge_index=torch.tensor([[0], [1]]))

    for featurizer, function in (("duvenaud", MolFeaturizer()), (by_hand, by_hand)):
        smiles = SMILES if featurizer == "duvenaud" else ["CC", "CO"]
        expected = make(None)([function(s) for s in smiles])
        torch.testing.assert_close(make(featurizer)(smiles), expected)
        torch.testing.assert_close(make(function)(smiles[:1], smiles), expected[:1])
        found = []
        for own, items in ((featurizer, smiles), (None, [function(s) for s in smiles])):
            process = KernelGP(make(own), tune=False).fit(items, range(len(items)))
            found.append(process.predict(items))
        np.testing.assert_allclose(*found)
    assert make(lambda item: item[0])([(by_hand("CC"), 1), (by_hand("CO"), 2)]).shape == (2, 2)
    names = "featurizer='mol': expected None, 'labels', 'default', 'duvenaud'"
    with pytest.raises(ValueError, match=names):
        make("mol")(SMILES)
    with pytest.raises(TypeError, match="gave a NoneType for molecule 0: expected a Data"):
        make(lambda molecule: None)(SMILES)


def test_labels_tell_stereo_and_charge() -> None:
    """In any order of atoms, a molecule written twice is the same, and its variant is another."""
    kernel = WLSubtreeKernel(3, edge_label="edge_attr", compare="minmax")
    for one, same, other in (
        ("C[C@H](N)C(=O)O", "N[C@@H](C)C(=O)O", "N[C@H](C)C(=O)O"),
        ("F/C=C/F", "F\\C=C\\F", "F/C=C\\F"),
        ("CC(=O)O", "OC(C)=O", "CC(=O)[O-]"),
    ):
        gram = kernel([one, same, other])
        assert gram[0, 1] == 1 and gram[0, 2] < 0.5


def test_equal_descriptors() -> None:
    """RDKit adds them up in the order of atoms, so those of isomers differ by rounding alone."""
    isomers = ["CC(=O)Nc1ccc(Cl)cc1", "CC(=O)Nc1cccc(Cl)c1", "CC(=O)Nc1ccccc1Cl"]
    process = KernelGP(molecule_kernels(), random_state=0).fit(isomers, [1.0, 2.0, 3.0])
    mean, std = process.predict(["CCO", "CC(=O)Nc1ccc(F)cc1"], return_std=True)
    assert np.abs(mean).max() < 10 and std.max() < 10


TRAIN = ["CCO", "c1ccccc1O", "CC(=O)Nc1ccc(O)cc1", "C[C@H](N)C(=O)O", "[Na+].[Cl-]", "CCN", "CCCO"]
TRAIN.append("F/C=C/F")  # only bonds differ from NEW's last
NEW = ["OCC", "C[C@@H](N)C(=O)O", "CCCCO", "[U]", "C(C", "", "C", "Oc1ccccc1C", "N[C@@H](C)C(=O)O"]
NEW.append("F/C=C\\F")


def min_max(ones: list[str], others: list[str], num_iterations: int = 2) -> Any:
    """The similarities of environments of at most `num_iterations` bonds, by brute force."""
    kernel = WLSubtreeKernel(num_iterations, edge_label="edge_attr", compare="minmax")
    codes = [list(map(DefaultFeaturizer(), smiles)) for smiles in (ones, others)]
    return defined(kernel, *codes).numpy()


@pytest.mark.parametrize(("num_iterations", "max_memory"), [(0, 1), (2, 1000), (3, 2**26)])
def test_is_the_largest_min_max_similarity(num_iterations: int, max_memory: int) -> None:
    found = MoleculeSimilarity(num_iterations, max_memory=max_memory).fit(TRAIN).nearest(NEW)
    readable = ~np.isin(np.arange(len(NEW)), (4, 5))
    assert np.isnan(found.similarity[~readable]).all() and (found.position[~readable] == -1).all()
    every = min_max(np.array(NEW)[readable].tolist(), TRAIN, num_iterations)
    np.testing.assert_allclose(found.similarity[readable], every.max(1), rtol=1e-10)
    assert found.position[readable].tolist() == every.argmax(1).tolist()


def test_training_molecules_are_like_themselves_however_they_are_written() -> None:
    """A pandas Series is read by position, whatever its index is."""
    assert MoleculeSimilarity().fit(TRAIN).nearest([]).similarity.shape == (0,)
    smiles = ["CCO", "CCO", "c1ccccc1", "CCN", "CCO"]
    new = pd.Series(["OCC", "CCN", "c1ccccc1"], index=[2, 0, 1])
    for index in ([2, 0, 1, 4, 3], list("abcde")):
        found = MoleculeSimilarity().fit(pd.Series(smiles, index=index)).nearest(new)
        assert found.similarity.tolist() == [1, 1, 1] and found.position.tolist() == [0, 3, 2]


@pytest.mark.parametrize("percentile", [0, 5, 50])
def test_threshold_leaves_each_molecule_itself_out(
    percentile: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = min_max(TRAIN, TRAIN)
    np.fill_diagonal(every, -1)
    fitted = MoleculeSimilarity(percentile=percentile, max_memory=600).fit([*TRAIN, "OCC"])
    assert fitted.threshold_ == pytest.approx(np.percentile(every.max(1), percentile))
    assert MoleculeSimilarity().fit(["CCO"]).threshold_ == 0
    again = MoleculeSimilarity(percentile=percentile).fit([TRAIN[0], *TRAIN, *TRAIN])
    assert again.threshold_ == fitted.threshold_  # each molecule counts once
    assert list(again.nearest(TRAIN[1:3]).position) == [2, 3]
    monkeypatch.setattr(similarity, "_SAMPLE", 3)
    least = MoleculeSimilarity(percentile=0).fit(TRAIN).threshold_  # from a sample of three
    assert np.isclose(every.max(1), least).any()


def test_refused() -> None:
    for call, error, match in (
        (lambda: MoleculeSimilarity(percentile=101), ValueError, "percentile=101"),
        (lambda: MoleculeSimilarity(percentile="5"), ValueError, "percentile='5'"),
        (lambda: MoleculeSimilarity(-1), ValueError, "num_iterations"),
        (lambda: MoleculeSimilarity().fit([]), ValueError, "at least one"),
        (lambda: MoleculeSimilarity().fit(["C", "C(C"]), InvalidSmiles, r"C\(C"),
        (lambda: MoleculeSimilarity().nearest(["C"]), ValueError, "fit before"),
        (lambda: molecule_graphs(["CC", "C1CC"]), ValueError, "1: cannot read the SMILES 'C1CC'"),
        (lambda: molecule_graphs(["CC", 3]), TypeError, "molecule 1: a molecule must be a SMILES"),
        (lambda: molecule_graphs("CCO"), TypeError, r"\['CCO'\] has one"),
        (lambda: VectorKernel(lengths=1.0)(["C"]), ValueError, "above 0"),
        (lambda: VectorKernel(lengths=(float("inf"),))(["C"]), ValueError, "above 0"),
        (lambda: VectorKernel(lengths=(0.0,))(["C"]), ValueError, "above 0"),
        (lambda: MoleculeSimilarity().fit("CCO"), TypeError, "not the string 'CCO'"),
        (lambda: MoleculeSimilarity().fit(["CC", None]), TypeError, r"\[1\] must be a string"),
    ):
        with pytest.raises(error, match=match):
            call()


def test_vectors_are_differentiable_and_features_have_single_precision() -> None:
    """Features are in single precision even if the default dtype is double."""
    rows = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)

    def gram(rows: torch.Tensor) -> torch.Tensor:
        return VectorKernel("d")([Data(d=row, num_nodes=1) for row in rows])

    assert torch.autograd.gradcheck(gram, rows)
    for scale in (1e200, 1e-300):  # squares over- or underflow
        torch.testing.assert_close(gram(rows * scale), gram(rows))
    expected = RandomWalkKernel(featurizer="default")(SMILES)
    torch.set_default_dtype(torch.float64)
    try:
        torch.testing.assert_close(RandomWalkKernel(featurizer="default")(SMILES), expected)
    finally:
        torch.set_default_dtype(torch.float32)
