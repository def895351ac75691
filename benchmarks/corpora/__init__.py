"""The published and made data that the benchmarks measure on, a module each.

Text classification (TREC, SST, MR, AG News), similar questions (AskUbuntu, paraphrases), beer
reviews, running text for language models, recordings, and sets whose evidence is planted.
"""
