"""Classification of multi-channel recordings by every cell, every subject left out in turn.

``python -m benchmarks.papers.lfp --help``. ``options`` asks without importing torch, ``data`` makes
the folds, ``models`` builds the networks, ``task`` is what Lightning trains, ``filters`` looks into
what they learned, ``report`` makes the tables and the pictures.
"""
