"""Language modelling, for the harness.

``config`` says what a network and its training are in plain values, and names the papers' set-ups
of ``benchmarks/presets/language_model.yaml``; ``options`` says which of them, on which corpus;
``models`` builds the networks, ``optimizer`` is what trains them.
"""
