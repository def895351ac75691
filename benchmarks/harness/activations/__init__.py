"""Learned activations: a single unit on parity, one recurrent unit, memory over long sequences.

``setting`` says how units are made and trained and ``options`` asks for it, without importing
torch. ``trial`` trains one network with one seed and goes on where it was interrupted, ``study``
goes through many of them in one or several processes and keeps the results folder, ``display``
shows how far they are. ``networks`` builds what is trained; ``long_term``, ``charging`` and ``xor``
are the problems; ``expansion`` has the exact slopes of a learned function; ``report`` makes the
tables, ``pictures`` the pictures.
"""
