"""Scans: recurrences that carry states through time along texts."""
