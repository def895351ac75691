"""Molecules with one integer label an atom and a bond: see ``labels``."""
