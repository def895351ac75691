"""Settings that all tests share."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch

torch.set_num_threads(1)  # the tests run in parallel processes
torch.sparse.check_sparse_tensor_invariants.disable()
