"""Language modelling, for the harness.

``options`` says what a network and its training are in plain values, names the papers' set-ups of
``benchmarks/presets/language_model.yaml``, and says which of them, on which corpus; ``models``
builds the networks, ``learner`` is what trains them.
"""
