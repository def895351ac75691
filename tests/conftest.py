"""Settings that all tests share."""

import gc
import os
from collections.abc import Iterator

# The tests run in parallel. NumPy, SciPy and PyTorch read these variables when first imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
import torch

TORCH = tuple(map(int, torch.__version__.split(".")[:2]))
torch.set_num_threads(1)
gc.set_threshold(50_000, 20, 20)  # a full collection visits a million objects of the libraries
torch.sparse.check_sparse_tensor_invariants.disable()


@pytest.fixture
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Gives PyTorch two threads, or as many as `request` says; tests without it have one thread."""
    number: int = getattr(request, "param", 2)
    torch.set_num_threads(number)
    yield number
    torch.set_num_threads(1)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cuda") and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    if item.get_closest_marker("traces") and TORCH < (2, 11):
        pytest.skip(f"PyTorch {torch.__version__} does not trace the layers: 2.13 does, 2.6 not")
