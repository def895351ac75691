"""The folder of real data, as the data sets' tests have it."""

from tests.datasets.conftest import real_data

__all__ = ["real_data"]
