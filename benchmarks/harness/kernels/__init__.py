"""Time, memory and values of the exact kernels beside GraKeL, and random features beside them.

``setting`` says what is measured, ``worker`` measures one thing in a process of its own with the
contestants of ``libraries`` and ``regression``, ``study`` goes through all of them and keeps the
results folder, ``report`` makes the tables and the pictures.
"""
