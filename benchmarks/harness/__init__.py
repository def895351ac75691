"""The shared machinery of the benchmarks.

For all of them: ``arguments`` has the options that they share, ``task`` is what an experiment must
say of itself, ``learner`` is what Lightning trains, ``sizes`` counts its parameters, ``training``
runs one model with one seed, ``progress`` shows it, ``experiment`` keeps the results folder and its
resumption, ``summary`` and ``table`` show results, ``files`` and ``errors`` write and end cleanly.

For molecules: ``command_line`` reads the arguments, ``data`` chooses molecules and split,
``models`` builds the networks, ``regressor`` is their learner, ``molecules`` their task, ``report``
makes the table and the pictures, ``prediction`` applies a checkpoint to new molecules. For texts:
``text``. For recordings, of which one subject at a time is left out: ``lfp``.
"""
