"""Rationales: the few words or atoms that suffice for a prediction, learned and measured."""
