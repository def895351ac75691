"""Experiments: one runnable module each, ``python -m benchmarks.NAME --help``."""

import os

# For products in half precision oneDNN and PyTorch's layer above it keep the code of 1,024 shapes,
# about 2 MB each. Batches hardly repeat a shape: memory would grow by gigabytes. Read at the first
# product of a process.
for _variable in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_variable, "32")
