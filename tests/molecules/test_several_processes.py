"""Networks that several processes of ``torchrun`` train equal those of one process."""

import os
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.multiprocessing import start_processes

from pyg_kernels.datasets import MoleculeDataset
from pyg_kernels.molecules import NETWORKS, MoleculeRegressor, load
from pyg_kernels.molecules.networks import MoleculeNet, build_network
from tests.molecules.sets import LOGP, SMILES

Y: np.ndarray = np.stack([LOGP, 10 * np.cos(np.arange(len(SMILES)))], 1)
Y[::5, 1] = np.nan
BATCH_SIZE = 4  # 35 molecules train: the last batch has 3; 5 validate: the last has 1
MODELS = {
    "exact": {"model": "wl-gated", "network_options": {"norm": None}},
    "drawn": {"model": "gine", "dropout": 0.5},
    "mean": {"model": "mean"},
}


def fit(folder: Path) -> None:
    """Trains the models; the first process saves them and their losses."""
    sizes = {"hidden_channels": 8, "num_layers": 2, "epochs": 4, "batch_size": BATCH_SIZE}
    for name, arguments in MODELS.items():
        own = {} if name == "mean" else {**sizes, "learning_rate": 0.02}
        made = MoleculeRegressor(**own, **arguments, device="cpu", refit=False, progress=False)
        made.fit(SMILES, Y, validation=np.arange(35, 40))
        if os.environ.get("RANK", "0") == "0":
            made.save(folder / name)
            history = getattr(made.members_[0], "history", [])
            losses = [[epoch["train_loss"], epoch["valid_loss"]] for epoch in history]
            np.save(folder / f"{name}.npy", np.array(losses))


def fit_as_one_of_two(rank: int, port: int, folder: Path) -> None:
    """Trains with the environment variables that ``torchrun`` sets in its processes."""
    told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    told |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "test"}
    os.environ.update({name: str(value) for name, value in told.items()})
    torch.set_num_threads(1)
    fit(folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folders that one process and two processes have written."""
    one, two = (tmp_path_factory.mktemp(name) for name in ("one", "two"))
    fit(one)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    # A process that has used a CUDA device cannot fork.
    method = "spawn" if torch.cuda.is_available() else "fork"
    options: Any = {"nprocs": 2, "join": False, "daemon": True, "start_method": method}
    started = start_processes(fit_as_one_of_two, (port, two), **options)
    started.join(timeout=300)  # waits for one of them
    assert started.join(timeout=300)
    return one, two


def test_two_processes_learn_what_one_learns(folders: tuple[Path, Path]) -> None:
    losses = [np.load(folder / "exact.npy") for folder in folders]
    assert losses[0].shape == (4, 2)
    np.testing.assert_allclose(*losses, rtol=1e-5)
    for name in ("exact", "mean"):
        found = [load(folder / name).predict(SMILES) for folder in folders]
        np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-4)


def test_dropout_and_batch_normalization_are_those_of_each_process(
    folders: tuple[Path, Path],
) -> None:
    one, two = (np.load(folder / "drawn.npy") for folder in folders)
    assert np.isfinite(two).all()
    assert not (one == two).any()
    # The same epoch of the same weights: only statistics and masks differ.
    assert two[0, 0] == pytest.approx(one[0, 0], rel=0.7)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("smiles", [("CCO", "CC(N)C"), ("C", "O")], ids=["bonds", "no-bonds"])
def test_processes_wait_for_no_gradient_that_does_not_come(
    name: str, smiles: tuple[str, ...]
) -> None:
    batch = MoleculeDataset.from_smiles(smiles).batch([0, 1])
    net = MoleculeNet(build_network(name, 65, 2, 7, 4, 2), 0, name)
    net(batch).sum().backward()
    assert all(weight.grad is not None for weight in net.parameters())
