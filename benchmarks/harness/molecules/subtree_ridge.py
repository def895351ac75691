"""Ridge regression on explicit Weisfeiler-Lehman subtree counts."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from sklearn.linear_model import Ridge
from torch import Tensor
from tqdm import tqdm

from benchmarks.harness.errors import InputError
from benchmarks.harness.molecules.baselines import Baseline
from benchmarks.harness.molecules.labels import labeled
from pyg_kernels.kernels import WLSubtreeKernel

# Twice a decade, from strong to weak: weak ones take the most iterations.
PENALTIES = tuple(10 ** (k / 2) for k in range(10, -7, -1))
WORSE = 2  # penalties in a row with a larger validation error end the search


class SubtreeRidge(Baseline):
    r"""Minimises :math:`\sum_i (y_i - b - \langle w, \phi(G_i)\rangle)^2 + \alpha |w|^2`.

    :math:`\phi` counts the subtree patterns of Shervashidze et al. 2011 after 0 to L iterations, of
    those that occur in the training part; atoms and bonds are labelled by all of their features.
    The penalty of each target has the lowest validation error.
    """

    uses_seed = False

    def learn(self, y: Tensor, valid_y: Tensor, seed: int, progress: bool) -> None:
        """Counts and solves, for each target on the molecules where it was measured."""
        assert self.data is not None
        molecules, parts = self.data.molecules, self.data.parts
        self.reference = molecules[parts["train"]]
        self.kernel = self._kernel(progress)
        counts = self.kernel.fit_transform(labeled(self.reference))
        valid_counts = self.kernel.transform(labeled(molecules[parts["valid"]]))
        solved = [
            _chosen(counts, y[:, k], valid_counts, valid_y[:, k], progress)
            for k in range(y.size(1))
        ]
        self.coefficients = torch.stack([torch.from_numpy(ridge.coef_) for ridge in solved])
        self.intercept = torch.tensor(
            [float(ridge.intercept_) for ridge in solved], dtype=torch.float64
        )
        self.penalties = [float(ridge.alpha) for ridge in solved]

    def standardized(self, molecules: Any, progress: bool) -> Tensor:
        """Counts of the patterns of the training part times their coefficients."""
        counts = self.kernel.transform(labeled(molecules))
        return torch.from_numpy(counts @ self.coefficients.numpy().T) + self.intercept

    def weights(self) -> dict[str, Tensor]:
        """A coefficient for each pattern and an intercept, for each target."""
        return {"coefficients": self.coefficients, "intercept": self.intercept}

    def restore(self, weights: Mapping[str, Tensor]) -> None:
        """Finds the patterns of the training part again."""
        self.coefficients, self.intercept = weights["coefficients"], weights["intercept"]
        self.kernel = self._kernel(progress=False).fit(labeled(self.reference))

    def details(self) -> dict[str, Any]:
        """How many molecules it saw, its patterns and penalties."""
        patterns = self.coefficients.size(1)
        return {
            "fitted_on": len(self.reference),
            "method": f"ridge regression on {patterns:,} counts of subtree patterns, "
            f"{self.config.order} iterations, penalty "
            f"{', '.join(f'{penalty:.3g}' for penalty in self.penalties)} by validation",
            "penalties": self.penalties,
        }

    def _kernel(self, progress: bool) -> WLSubtreeKernel:
        return WLSubtreeKernel(
            self.config.order,
            node_label="atom",
            edge_label="bond",
            dtype=torch.float64,
            verbose=None if progress else False,
        )


def _chosen(x: Any, y: Tensor, valid_x: Any, valid_y: Tensor, progress: bool) -> Ridge:
    """The fitted ridge regression whose penalty has the lowest validation error."""
    rows, valid_rows = (~target.isnan().numpy() for target in (y, valid_y))
    x, valid_x = x[rows], valid_x[valid_rows]
    y, valid_y = y[rows], valid_y[valid_rows]
    best, lowest, worse = None, math.inf, 0
    for penalty in tqdm(PENALTIES, "penalties", leave=False, disable=not progress):
        ridge = Ridge(penalty, solver="sparse_cg", tol=1e-6).fit(x, y.numpy())
        error = torch.from_numpy(ridge.predict(valid_x)).sub(valid_y).square().mean().item()
        worse = 0 if error < lowest else worse + 1
        if error < lowest:
            best, lowest = ridge, error
        if worse == WORSE:
            break
    if best is None:
        raise InputError("ridge regression on subtree counts has no finite validation error")
    return best
