"""The shared machinery of the molecule benchmark.

``command_line`` reads the arguments, ``data`` chooses molecules and split, ``models`` builds the
networks, ``regressor`` is what Lightning trains, ``training`` runs one model with one seed,
``progress`` shows it, ``experiment`` keeps the results folder and its resumption, ``report`` makes
the table and the pictures, ``prediction`` applies a checkpoint to new molecules.
"""
