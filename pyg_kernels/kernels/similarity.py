"""How far molecules are from those that a model was fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from pyg_kernels.checks import checked_count, is_number
from pyg_kernels.kernels.wl import WLSubtreeKernel

_SAMPLE = 1000  # most training molecules that the threshold is computed from, drawn at random


class Nearest(NamedTuple):
    """The nearest training molecule of each of m molecules.

    Attributes:
        similarity: (m,), between 0 and 1; NaN for a SMILES that cannot be read.
        position: (m,), its place among the training molecules; -1 for a SMILES that is not read.
    """

    similarity: NDArray[np.float64]
    position: NDArray[np.int64]


@dataclass
class MoleculeSimilarity:
    r"""The similarity of molecules to the nearest one of a training set.

    .. math::
        s(m) = \max_t \frac{\sum_a \min(\#_a(m), \#_a(t))}{\sum_a \max(\#_a(m), \#_a(t))}

    where :math:`\#_a` counts the atoms whose environment of at most ``num_iterations`` bonds is a.
    This is :class:`WLSubtreeKernel` with ``compare='minmax'`` on the codes of
    :class:`~pyg_kernels.chem.DefaultFeaturizer` (Ralaivola et al. 2005). It is 1 for a training
    molecule, and 0 for a molecule without an atom like those of the training molecules.

    Args:
        num_iterations: the radius of the environments of atoms, in bonds.
        percentile: of the similarities of training molecules to the nearest different one. It is
            the threshold below which a molecule is far from the training set. With 5, about 5 % of
            held-out molecules of the same set are far, and most of another set (docs: molecules).
        max_memory: bytes for the similarities that are held at a time.

    Attributes:
        threshold_: after ``fit``, the similarity below which a molecule is far. It is computed from
            at most 1,000 training molecules, drawn at random. It is 0 if all of them are the same.

    Raises:
        ValueError: on an argument out of range, or no molecules.

    Example:
        >>> from pyg_kernels.kernels import MoleculeSimilarity
        >>> similarity = MoleculeSimilarity().fit(["CCO", "CCCO", "CCCCO", "CCCCCO"])
        >>> nearest = similarity.nearest(["CCCCCCO", "c1ccccc1"])
        >>> nearest.similarity < similarity.threshold_  # which are far
        array([False, True])
        >>> nearest.similarity.round(2), nearest.position
        (array([0.86, 0.  ]), array([3, 0]))

    See Also:
        :class:`WLSubtreeKernel`, the kernel; :class:`Nearest`, what it finds.
    """

    num_iterations: int = 2
    percentile: float = 5.0
    max_memory: int = 2**26

    def __post_init__(self) -> None:
        checked_count(self.num_iterations, "num_iterations", least=0)
        checked_count(self.max_memory, "max_memory")
        if not is_number(self.percentile) or not 0 <= self.percentile <= 100:
            raise ValueError(f"percentile={self.percentile!r}: expected a number from 0 to 100")

    def fit(self, train: Sequence[str]) -> Self:
        """Counts the environments of the training molecules, and finds the threshold.

        Args:
            train: n SMILES strings.

        Raises:
            InvalidSmiles: if one cannot be read.
            ValueError: if there are none.
        """
        from pyg_kernels.chem import canonical_smiles
        from pyg_kernels.chem.encoding import checked_strings

        train = checked_strings(train)
        if not len(train):
            raise ValueError("expected at least one training molecule, got none")
        # Each different molecule counts once for the threshold, however often it was measured.
        self._positions = np.sort(np.unique(canonical_smiles(train), return_index=True)[1])
        distinct = [train[k] for k in self._positions]
        shared: dict[str, Any] = {"output": "gram", "max_memory": self.max_memory, "verbose": False}
        self._kernel = WLSubtreeKernel(
            self.num_iterations, edge_label="edge_attr", compare="minmax", **shared
        ).fit(_coded(distinct)[0])
        self._kernel.set_output(transform="default")  # whatever scikit-learn's configuration says
        number, generator = len(distinct), np.random.default_rng(0)
        sample = np.sort(generator.choice(number, min(_SAMPLE, number), replace=False))
        others = self._nearest([distinct[k] for k in sample], exclude=sample).similarity
        self.threshold_ = float(np.percentile(others, self.percentile)) if number > 1 else 0.0
        return self

    def nearest(self, new: Sequence[str], num_workers: int | None = None) -> Nearest:
        """The most similar training molecule of each molecule, in blocks of bounded memory.

        Args:
            new: m SMILES strings.
            num_workers: the number of processes that read them, as in
                :meth:`~pyg_kernels.chem.Featurizer.encode_many`.

        Raises:
            ValueError: if :meth:`fit` has not been called.
        """
        if not hasattr(self, "threshold_"):
            raise ValueError("call fit before nearest")
        from pyg_kernels.chem.encoding import checked_strings

        return self._nearest(checked_strings(new), num_workers=num_workers)

    def _nearest(
        self,
        new: Sequence[str],
        exclude: NDArray[np.int64] | None = None,
        num_workers: int | None = None,
    ) -> Nearest:
        """As :meth:`nearest`, but molecule k skips distinct training molecule ``exclude[k]``."""
        similarity, position = np.full(len(new), np.nan), np.full(len(new), -1)
        # Four float64 matrices of a block's size are alive at once.
        rows = min(4096, max(1, self.max_memory // (32 * len(self._kernel.collection_))))
        for start in range(0, len(new), rows):
            molecules, readable = _coded(new[start : start + rows], num_workers)
            if molecules:
                places = start + np.flatnonzero(readable)
                gram = self._kernel.transform(molecules)
                if exclude is not None:
                    gram[np.arange(len(places)), exclude[places]] = -1
                position[places] = self._positions[gram.argmax(1)]
                similarity[places] = gram.max(1)
        return Nearest(similarity, position)


def _coded(
    smiles: Sequence[str], num_workers: int | None = None
) -> tuple[list[Data], NDArray[np.bool_]]:
    """The molecules that can be read, with codes as labels, and a mask of the readable SMILES."""
    from pyg_kernels.chem import DefaultFeaturizer

    store, invalid = DefaultFeaturizer().encode_many(smiles, num_workers)
    readable = np.ones(len(smiles), dtype=bool)
    readable[[row.row for row in invalid]] = False
    arrays = ((c.atoms, c.edge_index, c.bonds) for c in map(store.__getitem__, range(len(store))))
    return [Data(*map(torch.from_numpy, parts)) for parts in arrays], readable
