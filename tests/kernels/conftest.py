"""Fixtures that the tests of kernels share with those of data sets."""

from tests.datasets.conftest import real_data

__all__ = ["real_data"]
