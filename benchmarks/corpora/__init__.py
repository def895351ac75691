"""The published and made data that the benchmarks measure on, a module each.

Files of a folder ``root`` are used where they lie in ``root`` or ``root/raw``, as they are or
compressed (``.gz``); those that can be are downloaded otherwise.

Text classification (TREC, SST, MR, AG News), similar questions (AskUbuntu, paraphrases), beer
reviews, running text for language models, recordings, and sets whose evidence is planted.
"""
