"""Exact attributions beside other explainers: planted substructures, measured targets, texts."""
