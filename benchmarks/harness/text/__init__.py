"""Classification of texts as a task of the harness.

``options`` says which texts and networks, ``data`` reads them, ``model_config``, ``encoders`` and
``models`` build the networks, ``classifier`` is what Lightning trains, ``task`` joins them to the
harness, ``report`` makes the tables and the pictures, ``explanation`` reads a text word by word,
``prediction`` classifies new ones.
"""
