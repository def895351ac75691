"""Classification of multi-channel recordings by every cell, every subject left out in turn."""
