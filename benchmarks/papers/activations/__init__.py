"""Learned activations: a single unit on parity, one recurrent unit, memory over long sequences.

``python -m benchmarks.papers.activations --help``. ``options`` asks without importing torch,
``problems`` are the three, ``trial`` trains one network on one of them with one seed and goes on
where it was interrupted, ``expansion`` has the exact slopes of a learned function, ``report`` makes
the tables and the pictures.
"""
