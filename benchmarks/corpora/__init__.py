"""The published and made data that the benchmarks measure on, one module for each.

A file is read from the folder ``root`` or ``root/raw``, plain or compressed (``.gz``). If it is in
neither folder, it is downloaded where that is possible.

Text classification (TREC, SST, MR, AG News), similar questions (AskUbuntu, paraphrases), beer
reviews, running text for language models, recordings, and data sets with planted evidence.
"""
