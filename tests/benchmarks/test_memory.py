"""Memory of a benchmark's process."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.harness.memory import PeakMemory

MIB = 2**20
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_memory_does_not_grow_with_the_number_of_shapes():
    script = """
import benchmarks
import torch

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmRSS"))

torch.set_num_threads(1)
layer = torch.nn.Linear(64, 64)
for rows in range(1000, 1200):
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(torch.ones(rows, 64, requires_grad=True))
    y.sum().backward()
    if rows == 1050:
        before = resident()
print(resident() - before)
"""
    free = {name: value for name, value in os.environ.items() if "CACHE_CAPACITY" not in name}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, env=free, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 60  # MiB; 150 shapes would keep some hundreds


def test_peak_memory_counts_what_has_been_freed():
    with PeakMemory(torch.device("cpu")) as first:
        np.ones(100 * MIB, dtype=np.uint8)
    assert 95 * MIB < first.peak < 130 * MIB
    with PeakMemory(torch.device("cpu")) as second:
        np.ones(40 * MIB, dtype=np.uint8)
    if sys.platform == "linux":  # an earlier peak hides no later one
        assert 35 * MIB < second.peak < 70 * MIB
