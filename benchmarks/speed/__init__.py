"""How much time layers and training take, and beside what: ``python -m benchmarks.speed --help``.

``timing`` has the clock and the one table, ``cases`` what is timed in it, ``epoch`` the training of
molecules beside its matrix products, ``scale`` featurising and training by number of molecules.
"""
