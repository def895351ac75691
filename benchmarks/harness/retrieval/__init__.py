"""What is particular to finding similar questions.

``options`` are those of the command line; ``data`` chooses corpus and word vectors; ``encoders``
and ``models`` build the networks, ``batches`` and ``negatives`` what they see, ``learner`` is what
Lightning trains and ``task`` joins them to the harness. ``titles``, ``generator`` and
``pretraining`` are the same for pre-training. ``baselines``, ``reranker`` and ``metrics`` rank and
measure without a network, ``standing`` has them side by side; ``report``, ``pictures`` and
``gates`` show the results.
"""
