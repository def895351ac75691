"""Classification of texts as a task of the harness.

``data`` chooses corpus, parts and word vectors, ``models`` builds the networks, ``classifier`` is
what Lightning trains, ``task`` joins them to the harness, ``report`` makes the table and the
pictures.
"""
