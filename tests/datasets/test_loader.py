from typing import Any

import pytest
import torch
from torch_geometric.loader import DataLoader

from pyg_kernels.datasets import MoleculeDataset, MoleculeLoader, UniformBins
from tests.chem.nci import readable_nci_smiles
from tests.datasets.test_molecules import assert_same_graphs

SMILES = list(dict.fromkeys(readable_nci_smiles()[:60]))[:50]
molecules = MoleculeDataset.from_smiles(SMILES, torch.arange(50.0))


def order(loader: MoleculeLoader) -> list[int]:
    return [int(y) for batch in loader for y in batch.y]


@pytest.mark.parametrize(("drop_last", "number"), [(False, 4), (True, 3)])
def test_gives_the_batches_of_pytorch_geometric(drop_last: bool, number: int) -> None:
    loader = MoleculeLoader(molecules, batch_size=16, drop_last=drop_last)
    expected = DataLoader(molecules, 16, drop_last=drop_last)
    assert len(loader) == len(expected) == number
    for batch, other in zip(loader, expected, strict=True):
        assert_same_graphs(batch, other)
    assert len(MoleculeLoader(molecules, batch_size=25, drop_last=drop_last)) == 2
    assert len(MoleculeLoader(molecules, batch_size=64, drop_last=drop_last)) == 1 - drop_last


def test_goes_through_the_given_molecules_only() -> None:
    assert order(MoleculeLoader(molecules, [4, 2, 7, 2], batch_size=3)) == [4, 2, 7, 2]
    assert order(MoleculeLoader(molecules, torch.arange(50) % 10 == 3)) == [3, 13, 23, 33, 43]
    assert order(MoleculeLoader(molecules[10:], [0, -1])) == [10, 49]
    shuffled = order(MoleculeLoader(molecules, range(5, 25), batch_size=7, shuffle=True))
    assert sorted(shuffled) == list(range(5, 25)) != shuffled


def test_each_epoch_has_its_own_order_that_can_be_taken_up_again() -> None:
    state = torch.get_rng_state()
    loader = MoleculeLoader(molecules, batch_size=16, shuffle=True, seed=5)
    first, second, third = order(loader), order(loader), order(loader)
    assert torch.equal(torch.get_rng_state(), state)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second != third
    resumed = MoleculeLoader(molecules, batch_size=16, shuffle=True, seed=5)
    resumed.set_epoch(2)
    assert order(resumed) == third
    assert order(MoleculeLoader(molecules, shuffle=True, seed=6)) == second


def test_bins_are_drawn_anew_each_pass_and_again_after_set_epoch():
    molecules = MoleculeDataset.from_smiles(["C", "CC", "CCC", "CCCC", "CO"], [0, 0, 0, 0, 9])
    bins = UniformBins(molecules.targets[1:].flatten(), width=1.0)
    loader = MoleculeLoader(molecules, range(1, 5), batch_size=3, seed=5, bins=bins)

    def drawn():
        return [smiles for batch in loader for smiles in batch.smiles]

    passes = [drawn() for _ in range(100)]
    assert all(len(one) == 4 for one in passes)
    assert "C" not in {smiles for one in passes for smiles in one}
    assert sum(one.count("CO") for one in passes) / 400 == pytest.approx(0.5, abs=0.06)
    loader.set_epoch(7)
    assert drawn() == passes[7]
    with pytest.raises(ValueError, match="bins must be of the 5 molecules at indices, not of 4"):
        MoleculeLoader(molecules, bins=bins)


@pytest.mark.parametrize(("number", "smallest"), [(2, 1), (3, 2), (7, 2)])
def test_processes_share_every_batch(number: int, smallest: int) -> None:
    options: dict[str, Any] = {"batch_size": 12, "shuffle": True, "seed": 3}
    whole = MoleculeLoader(molecules, **options)
    loaders = [
        MoleculeLoader(molecules, **options, share=(rank, number), smallest_share=smallest)
        for rank in range(number)
    ]
    assert {len(loader) for loader in loaders} == {5}
    for _ in range(2):  # epochs
        for expected, *shares in zip(whole, *loaders, strict=True):
            y = expected.y.flatten().tolist()
            for rank, share in enumerate(shares):
                own, stand_ins = y[rank::number], share.y.isnan().flatten()
                assert share.y[~stand_ins].tolist() == [[value] for value in own]
                assert stand_ins.tolist() == sorted(stand_ins.tolist())
                assert share.num_graphs == max(smallest, len(own))
                assert set(share.smiles) <= set(expected.smiles)


def test_stand_ins_are_other_molecules_of_the_batch() -> None:
    (batch,) = MoleculeLoader(molecules, [4, 2, 7], 3, share=(2, 4), smallest_share=4)
    assert batch.smiles == [SMILES[i] for i in (7, 4, 2, 7)]
    assert batch.y.flatten().nan_to_num(-1).tolist() == [7, -1, -1, -1]
    (batch,) = MoleculeLoader(molecules, [4], 3, share=(1, 2))
    assert batch.smiles == [SMILES[4]]
    assert batch.y.isnan().all()
    (batch,) = MoleculeLoader(molecules, [4], 3, smallest_share=2)  # one process
    assert batch.y.tolist() == [[4]]
    for share in ((2, 2), (-1, 2), (0, 0)):
        with pytest.raises(ValueError, match=rf"not \({share[0]}, {share[1]}\)"):
            MoleculeLoader(molecules, share=share)
    with pytest.raises(ValueError, match="smallest_share must be at least 1, not 0"):
        MoleculeLoader(molecules, smallest_share=0)
