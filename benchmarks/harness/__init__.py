"""The shared machinery of the benchmarks.

For all benchmarks: ``options`` turns a dataclass into flags, help and checks; ``study`` keeps a
results folder of cells that are computed once, resumed and shown. For those that train through
Lightning: ``options.Training`` has their common options; ``task`` is the interface of an experiment
(``classification``: into classes) and the batches that Lightning reads; ``learner`` is what it
trains; ``sizes`` counts parameters and fits the width; ``training`` runs and shows one model with
one seed; ``experiment`` is the study of folds, models and seeds; ``summary`` and ``table`` show
results; ``words`` numbers texts and reads word vectors; ``checkpoint`` and ``tables_of_texts``
apply a run to new data; ``files`` writes files whole; ``errors`` ends runs cleanly; ``devices``
chooses where to compute.
"""
