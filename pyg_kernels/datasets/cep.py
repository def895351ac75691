"""The Harvard Clean Energy Project's sample of molecules for solar cells."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rdkit import rdBase
from torch_geometric.data import Data

from pyg_kernels.chem import Featurizer, MolCodeStore
from pyg_kernels.datasets.molecules import MoleculeDataset
from pyg_kernels.datasets.public_file import PublicFile, write_whole
from pyg_kernels.datasets.table import MoleculeTable, read_molecule_table

# Changes whenever what process writes does, so that an older file is never taken for a new one.
CACHE_FORMAT = 2


class CEP(MoleculeDataset):
    """29,978 organic molecules of the Harvard Clean Energy Project (Hachmann et al. 2011).

    The public sample that Duvenaud et al. 2015 and Lei et al. 2017 measure on. The target ``PCE``
    is the power conversion efficiency that the project computed, in percent: mean 3.90, standard
    deviation 2.54.

    Args:
        root: a folder. The raw file is ``root/raw/cep-processed.csv``, used as it is where it lies
            there, downloaded otherwise. The encoded molecules are kept in ``root/processed``, in a
            file named after the featuriser, the RDKit version and the raw file, so that none of
            them can change unnoticed.
        transform: applied to each molecule as it is taken out.
        num_workers: the number of processes, as in
            :meth:`~pyg_kernels.chem.Featurizer.encode_many`.
        progress: whether to show what is going on.
        force_reload: encode the molecules anew.
        featurizer: the features; a MolFeaturizer by default.

    Raises:
        OSError: if the raw file is not there and cannot be downloaded.
        InvalidMolecules: if the raw file has been changed and a SMILES cannot be read.
        ValueError: if the raw file has not the columns ``smiles`` and ``PCE``.
    """

    url = (
        "https://raw.githubusercontent.com/HIPS/neural-fingerprint/master/"
        "data/2015-06-02-cep-pce/cep-processed.csv"
    )
    raw_name = "cep-processed.csv"
    sha256 = "99c3def57a412e0ac3922194d0605b6a8a9056938706a44bc4ba1d35fe8bc8c0"

    def __init__(
        self,
        root: str | Path,
        transform: Callable[[Data], Any] | None = None,
        num_workers: int | None = None,
        progress: bool = False,
        force_reload: bool = False,
        featurizer: Featurizer | None = None,
    ) -> None:
        self._workers, self._progress = num_workers, progress
        # Not in a method ``download``: PyG would make the folder before it calls that.
        self.source(root)
        super().__init__(
            os.fspath(root), transform, featurizer, log=progress, force_reload=force_reload
        )
        self._load()

    @classmethod
    def source(cls, root: str | Path) -> Path:
        """The raw file, with the columns ``smiles`` and ``PCE``; downloaded if it is not there.

        Raises:
            OSError: if it cannot be downloaded.
        """
        raw = Path(root).expanduser() / "raw" / cls.raw_name
        if not raw.is_file():
            PublicFile(raw.name, cls.url, cls.sha256).download(raw)
        return raw

    @property
    def raw_file_names(self) -> list[str]:
        """The file that must lie in ``root/raw``."""
        return [self.raw_name]

    @property
    def processed_file_names(self) -> list[str]:
        """The file of encoded molecules in ``root/processed``."""
        raw = hashlib.sha256(Path(self.raw_paths[0]).read_bytes()).hexdigest()[:12]
        return [
            f"cep-v{CACHE_FORMAT}-{self.featurizer.fingerprint}-rdkit{rdBase.rdkitVersion}-{raw}.pt"
        ]

    def process(self) -> None:
        """Encodes the molecules and writes them to ``root/processed``."""
        path = Path(self.raw_paths[0])
        store, table = self._read(
            read_molecule_table(path, "smiles", ["PCE"]),
            path.name,
            num_workers=self._workers,
            progress=self._progress,
        )
        # Tensors and lists only, which torch.load reads without running code.
        content = {
            "store": {name: torch.from_numpy(array) for name, array in vars(store).items()},
            "table": vars(table),
        }
        write_whole(Path(self.processed_paths[0]), lambda partial: torch.save(content, partial))

    def _load(self) -> None:
        content = torch.load(self.processed_paths[0], weights_only=True)
        store = {name: tensor.numpy() for name, tensor in content["store"].items()}
        self._hold(MolCodeStore(**store), MoleculeTable(**content["table"]))
