"""Similarities to the nearest molecule against counts of environments that are strings."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("rdkit")

from pyg_kernels.chem import DefaultFeaturizer, InvalidSmiles
from pyg_kernels.kernels import MoleculeSimilarity, similarity_to

TRAIN = ["CCO", "c1ccccc1O", "CC(=O)Nc1ccc(O)cc1", "C[C@H](N)C(=O)O", "[Na+].[Cl-]", "CCN", "CCCO"]
NEW = ["OCC", "C[C@@H](N)C(=O)O", "CCCCO", "[U]", "C(C", "", "C", "Oc1ccccc1C", "N[C@@H](C)C(=O)O"]


def environments(smiles: str, num_iterations: int) -> Counter[str]:
    codes = DefaultFeaturizer().encode(smiles)
    labels = [str(row) for row in codes.atoms.tolist()]
    counts = Counter(f"0 {label}" for label in labels)
    for i in range(1, num_iterations + 1):
        around: list[list[str]] = [[] for _ in labels]
        for (source, target), bond in zip(codes.edge_index.T, codes.bonds.tolist(), strict=True):
            around[target].append(f"{bond} {labels[source]}")
        labels = [f"({label} {sorted(a)})" for label, a in zip(labels, around, strict=True)]
        counts.update(f"{i} {label}" for label in labels)
    return counts


def expected(one: str, other: str, num_iterations: int = 2) -> float:
    a, b = environments(one, num_iterations), environments(other, num_iterations)
    return (a & b).total() / (a | b).total()


@pytest.mark.parametrize("max_memory", [1, 1000, 2**26])
@pytest.mark.parametrize("num_iterations", [0, 2, 3])
def test_is_the_largest_min_max_similarity(num_iterations: int, max_memory: int) -> None:
    similarity = MoleculeSimilarity(num_iterations, max_memory=max_memory).fit(TRAIN)
    found = similarity.nearest(NEW)
    for k, smiles in enumerate(NEW):
        if k in (4, 5):
            assert np.isnan(found.similarity[k])
            assert found.position[k] == -1
            continue
        every = [expected(smiles, train, num_iterations) for train in TRAIN]
        assert found.similarity[k] == pytest.approx(max(every), rel=1e-10)
        assert found.position[k] == int(np.argmax(every))


def test_training_molecules_are_like_themselves_however_they_are_written() -> None:
    assert similarity_to(TRAIN, ["OCC", "N[C@@H](C)C(=O)O"]).tolist() == [1, 1]
    assert similarity_to(TRAIN, ["N[C@H](C)C(=O)O", "[U]"]).tolist() == [
        pytest.approx(expected(TRAIN[3], NEW[1])),
        0,
    ]
    assert similarity_to(TRAIN, []).shape == (0,)


@pytest.mark.parametrize("percentile", [0, 5, 50])
def test_threshold_leaves_each_molecule_itself_out(percentile: float) -> None:
    train = [*TRAIN, "OCC"]  # a duplicate is another molecule
    others = [
        max(expected(one, other) for k, other in enumerate(train) if k != number)
        for number, one in enumerate(train)
    ]
    similarity = MoleculeSimilarity(percentile=percentile, max_memory=600).fit(train)
    assert similarity.threshold_ == pytest.approx(np.percentile(others, percentile))
    assert 0 <= MoleculeSimilarity(sample_size=3).fit(train).threshold_ <= 1
    assert MoleculeSimilarity().fit(["CCO"]).threshold_ == 0


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="percentile=101"):
        MoleculeSimilarity(percentile=101)
    with pytest.raises(ValueError, match="num_iterations"):
        MoleculeSimilarity(-1)
    with pytest.raises(ValueError, match="sample_size"):
        MoleculeSimilarity(sample_size=0)
    with pytest.raises(ValueError, match="at least one"):
        similarity_to([], ["C"])
    with pytest.raises(InvalidSmiles, match=r"C\(C"):
        similarity_to(["C", "C(C"], ["C"])
    with pytest.raises(ValueError, match="fit before"):
        MoleculeSimilarity().nearest(["C"])
