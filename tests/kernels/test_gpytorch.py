"""The package's kernels in GPyTorch's processes."""

import numpy as np
import pytest
import torch

pytest.importorskip("gpytorch", reason="needs the extra 'gp'")

import gpytorch

from pyg_kernels.kernels import KernelGP, WLSubtreeKernel
from pyg_kernels.kernels.gpytorch import GPyTorchKernel
from tests.kernels.test_gp import graphs_and_targets
from tests.pages import code_blocks, run


class Process(gpytorch.models.ExactGP):  # type: ignore[misc]
    def __init__(self, numbers: torch.Tensor, y: torch.Tensor, kernel: GPyTorchKernel) -> None:
        likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
        super().__init__(numbers, y, likelihood)
        likelihood.noise = 0.2
        self.kernel = kernel

    def forward(self, numbers: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        mean = torch.zeros(numbers.shape[:-1], dtype=torch.float64)
        return gpytorch.distributions.MultivariateNormal(mean, self.kernel(numbers))


def test_its_posterior_is_that_of_our_process() -> None:
    graphs, y = graphs_and_targets(40)
    kernel = WLSubtreeKernel(2, compare="minmax")
    ours = KernelGP(kernel, split=False, tune=False, noise=0.2).fit(graphs[:30], y[:30])
    mean, std = ours.predict(graphs[30:], return_std=True)
    scale = y[:30].std()
    targets = torch.from_numpy((y[:30] - y[:30].mean()) / scale)
    numbers = torch.arange(40, dtype=torch.float64)[:, None]
    process = Process(numbers[:30], targets, GPyTorchKernel(kernel, graphs, torch.float64))
    with torch.no_grad():
        found = process.eval().likelihood(process(numbers[30:]))
    np.testing.assert_allclose(found.mean * scale + y[:30].mean(), mean, rtol=1e-8)
    np.testing.assert_allclose(found.stddev * scale, std, rtol=1e-8)


def test_values() -> None:
    graphs, _ = graphs_and_targets(6)
    kernel = WLSubtreeKernel(2)
    ours, theirs = kernel(graphs).float(), GPyTorchKernel(kernel, graphs)
    rows, columns = torch.tensor([[[0], [3]], [[1], [2]]]), torch.tensor([[4], [5], [0]])
    found = theirs(rows, columns).to_dense()
    assert torch.equal(found, ours[rows[..., 0]][..., columns[:, 0]])
    assert torch.equal(theirs(columns, diag=True), ours.diagonal()[columns[:, 0]])
    assert not list(theirs.parameters())
    with pytest.raises(ValueError, match=r"inputs of shape \(3, 2\)"):
        theirs(torch.zeros(3, 2)).to_dense()
    for number in (-1.0, 1.7, 6.0):
        with pytest.raises(ValueError, match="numbers of the 6 items"):
            theirs(torch.tensor([[number]])).to_dense()
    with pytest.raises(TypeError, match="expected a kernel"):
        GPyTorchKernel("minmax", graphs)  # type: ignore[arg-type]


def test_expected_improvement_as_printed() -> None:
    """The longer chain with the better end is the one to measure."""
    pytest.importorskip("rdkit")
    names = run(*(block for block in code_blocks("kernels.rst") if "gpytorch" in block))
    assert names["improvement"].shape == (2,) and bool((names["improvement"] > 0).all())
    assert names["best"] == "CCCCCO"
