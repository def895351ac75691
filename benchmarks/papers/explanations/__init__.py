"""Exact attributions beside other explainers: planted substructures, measured targets, texts.

``task`` reads molecules and texts, trains networks and explains them; ``measures`` has the
explainers and says how good they are, ``sentences`` explains a text classifier; ``report`` makes
the table, the pictures and the page.
"""
