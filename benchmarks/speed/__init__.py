"""Speed of the layers: see ``python -m benchmarks.speed --help``."""
