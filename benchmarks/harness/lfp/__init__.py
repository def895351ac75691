"""Classification of multi-channel recordings, every subject left out in turn, for the harness.

``data`` chooses recordings and their folds, ``models`` builds the networks, ``classifier`` is what
Lightning trains, ``filters`` looks into what they learned, ``task`` joins them to the harness,
``report`` makes the table and the pictures.
"""
