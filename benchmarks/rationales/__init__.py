"""Rationales: the few words or atoms that suffice for a prediction, learned and measured.

``options`` asks without importing torch, ``data`` reads, ``networks`` select, ``goals`` says what
is predicted, ``learner`` is what Lightning trains, ``svm`` is fitted at once, ``task`` makes runs
of them, ``report`` tables, pictures and the page, ``explain`` reads new texts.
"""
