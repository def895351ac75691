"""Classification of texts as a task of the harness.

``options`` says which texts and networks, ``data`` reads them, ``models`` builds the networks,
``task`` trains them for the harness, ``report`` makes the tables and the pictures, ``prediction``
classifies new texts and reads them word by word.
"""
