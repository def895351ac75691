"""A Gaussian process whose covariance is the normalised random-walk kernel."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar
from torch import Tensor

from benchmarks.harness.errors import InputError
from benchmarks.harness.molecules.baselines import Baseline
from benchmarks.harness.task import PARTS
from pyg_kernels.kernels import RandomWalkKernel

# Logarithms of the ratio of noise to amplitude that are tried, before the best is refined.
RATIOS = np.linspace(math.log(1e-6), math.log(1e4), 100)


class WalkProcess(Baseline):
    r"""The posterior mean of a Gaussian process with covariance :math:`a K + s I`.

    :math:`K(G, G') = K_W^n(G, G') / \sqrt{K_W^n(G, G) K_W^n(G', G')}` is the random-walk kernel of
    Lei et al. 2017, eq. 5, on all atom and bond features. Amplitude a and noise s maximise the
    marginal likelihood of the training molecules that it can take, drawn at random; the validation
    part is not used. Training error is that of the molecules that it saw.
    """

    uses_seed = True

    def learn(self, y: Tensor, valid_y: Tensor, seed: int, progress: bool) -> None:
        """Draws molecules with a measured target and solves for each target."""
        assert self.data is not None
        places = torch.nonzero((~y.isnan()).any(dim=1)).flatten()
        order = torch.randperm(len(places), generator=torch.Generator().manual_seed(seed))
        places = places[order[: self.config.most_molecules]].sort().values
        y = y[places]
        for name, column in zip(self.scale.names, y.t(), strict=True):
            if column.isnan().all():
                raise InputError(
                    f"none of the {len(y)} molecules of the Gaussian process has a value of target "
                    f"{name!r}; --gp-molecules takes more"
                )
        self.places = places
        self.reference = self.data.molecules[self.data.parts["train"][places]]
        self.kernel = self._kernel(progress)
        gram = self.kernel.fit_transform(self._graphs(self.reference))
        solved = [_posterior(gram, column) for column in y.t()]
        self.dual = torch.stack([dual for dual, _, _ in solved], dim=1)
        self.fitted = torch.from_numpy(gram) @ self.dual
        self.amplitude = torch.tensor(
            [amplitude for _, amplitude, _ in solved], dtype=torch.float64
        )
        self.noise = torch.tensor([noise for _, _, noise in solved], dtype=torch.float64)

    def predictions(self, progress: bool) -> dict[str, Tensor]:
        """Those of the molecules that it saw, NaN for the rest of the training part, and others."""
        assert self.data is not None
        molecules, parts = self.data.molecules, self.data.parts
        found = {part: self.predict(molecules[parts[part]], progress) for part in PARTS[1:]}
        train = torch.full((len(parts["train"]), self.dual.size(1)), torch.nan, dtype=torch.float64)
        train[self.places] = self.in_units(self.fitted)
        return {"train": train, **found}

    def standardized(self, molecules: Any, progress: bool) -> Tensor:
        """The posterior means."""
        self.kernel.progress = None if progress else False
        return torch.from_numpy(self.kernel.transform(self._graphs(molecules))) @ self.dual

    def weights(self) -> dict[str, Tensor]:
        """A dual weight for each molecule, an amplitude and a noise, for each target."""
        return {"dual": self.dual, "amplitude": self.amplitude, "noise": self.noise}

    def restore(self, weights: Mapping[str, Tensor]) -> None:
        """Takes up the dual weights."""
        self.dual = weights["dual"]
        self.amplitude, self.noise = weights["amplitude"], weights["noise"]
        self.kernel = self._kernel(progress=False).fit(self._graphs(self.reference))

    def details(self) -> dict[str, Any]:
        """How many molecules it saw, its walks, amplitudes and noises."""
        return {
            "fitted_on": len(self.reference),
            "method": f"Gaussian process on {len(self.reference):,} molecules drawn from the "
            f"training part, walks of {self.config.order} atoms, amplitude and noise by marginal "
            "likelihood",
            "amplitude": self.amplitude.tolist(),
            "noise": self.noise.tolist(),
        }

    def _kernel(self, progress: bool) -> RandomWalkKernel:
        return RandomWalkKernel(
            self.config.order,
            decay=1.0,
            normalize=True,
            dtype=torch.float64,
            verbose=None if progress else False,
        )

    def _graphs(self, molecules: Any) -> Any:
        return molecules.batch(torch.arange(len(molecules))).to(self.device)


def _posterior(gram: NDArray[np.float64], y: Tensor) -> tuple[Tensor, float, float]:
    """Dual weights of all molecules, 0 where `y` is NaN, amplitude and noise.

    In the basis of eigenvectors the marginal likelihood costs O(n), and the best amplitude for a
    ratio of noise to amplitude has a closed form: the ratio alone is left to search, and all of its
    range is looked at.
    """
    places = np.flatnonzero(~y.isnan().numpy())
    values, vectors = eigh(gram[np.ix_(places, places)])
    values = values.clip(min=0)
    projected = vectors.T @ y[places].numpy()

    def amplitude(ratio: float) -> float:
        return float(max(np.mean(projected**2 / (values + ratio)), np.finfo(float).tiny))

    def loss(logarithm: float) -> float:
        ratio = math.exp(logarithm)
        return len(values) * math.log(amplitude(ratio)) + float(np.log(values + ratio).sum())

    best, step = min(RATIOS, key=loss), RATIOS[1] - RATIOS[0]
    found = minimize_scalar(loss, bounds=(best - step, best + step), options={"xatol": 1e-6})
    ratio = math.exp(found.x)
    dual = torch.zeros(len(y), dtype=torch.float64)
    dual[places] = torch.from_numpy(vectors @ (projected / (values + ratio)))
    return dual, amplitude(ratio), ratio * amplitude(ratio)
