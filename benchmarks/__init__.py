"""Experiments: one runnable module each, ``python -m benchmarks.NAME --help``."""
