"""The Harvard Clean Energy Project's sample of molecules for solar cells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from pyg_kernels.chem import Featurizer
from pyg_kernels.datasets.molecules import MoleculeCSV
from pyg_kernels.datasets.public_file import PublicFile


class CEP(MoleculeCSV):
    """29,978 organic molecules of the Harvard Clean Energy Project (Hachmann et al. 2011).

    The public sample that Duvenaud et al. 2015 and Lei et al. 2017 measure on. The target ``PCE``
    is the power conversion efficiency that the project computed, in percent: mean 3.90, standard
    deviation 2.54.

    Args:
        root: a folder. The file is ``root/cep-processed.csv`` or ``root/raw/cep-processed.csv``,
            used as it is where it lies there, or gzipped; otherwise it is downloaded.
        transform, num_workers, progress, featurizer: as of :class:`MoleculeCSV`.

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
        featurizer: Featurizer | None = None,
    ) -> None:
        super().__init__(
            self.source(root),
            target_columns=["PCE"],
            num_workers=num_workers,
            progress=progress,
            transform=transform,
            featurizer=featurizer,
        )

    @classmethod
    def source(cls, root: str | Path) -> Path:
        """The raw file, with the columns ``smiles`` and ``PCE``; downloaded if it is not there.

        Raises:
            OSError: if it cannot be downloaded.
        """
        return PublicFile(cls.raw_name, cls.url, cls.sha256).obtain(root)
