"""Classification of texts as a task of the harness.

``data`` chooses corpus, parts and word vectors, ``model_config``, ``encoders`` and ``models`` build
the networks, ``classifier`` is what Lightning trains, ``task`` joins them to the harness,
``report`` and ``variants`` make the table and the pictures, ``explanation`` reads a text word by
word.
"""
