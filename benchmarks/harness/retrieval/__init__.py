"""What is particular to finding similar questions.

``options`` are those of the command line; ``data`` reads questions and word vectors; ``models`` are
encoders and networks, ``batches`` what they see; ``task`` trains them for the harness.
``baselines`` and ``metrics`` rank and measure without a network; ``report`` shows results,
``ranking`` applies a trained run.
"""
