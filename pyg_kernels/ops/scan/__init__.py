"""Scans: what is carried through time along texts."""
