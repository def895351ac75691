"""The shared machinery of the benchmarks.

For all of them: ``options`` turns a dataclass into flags, help and checks, ``study`` keeps a
results folder of cells that are computed once, resumed and shown. For those that train through
Lightning: ``options.Training`` has the options that they share, ``task`` is what an experiment must
say of itself (``classification``: of classes) and the batches that Lightning reads, ``learner`` is
what it trains, ``sizes`` counts its parameters and fits its width, ``training`` runs one model with
one seed and shows it, ``experiment`` is the study of folds, models and seeds, ``summary``
and ``table`` show results, ``words`` numbers texts and reads word vectors, ``checkpoint`` and
``tables_of_texts`` apply a run to new data, ``files`` and ``errors`` write and end cleanly.
``devices`` says where they compute.
"""
