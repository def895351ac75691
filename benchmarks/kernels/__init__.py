"""Time, memory and values of the exact kernels beside GraKeL, and random features beside them.

``python -m benchmarks.kernels --help``. ``options`` says what is measured, ``measure`` measures one
thing in a process of its own with the contestants of ``libraries``, ``regression`` and
``accuracy``, ``report`` makes the tables.
"""
