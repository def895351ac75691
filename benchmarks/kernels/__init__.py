"""Time, memory and values of the exact kernels beside GraKeL, and random features beside them.

``options`` says what is measured, ``measure`` measures one thing in a process of its own with the
contestants of ``libraries`` and ``regression``, ``report`` makes the tables.
"""
