"""Language modelling, for the harness.

``config`` says what a network and its training are in plain values, ``presets`` names the papers'
set-ups, ``models`` builds the networks out of ``encoders``, ``optimizer`` what trains them.
"""
