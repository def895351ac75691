"""Classification of multi-channel recordings by every cell, leaving out each subject in turn."""
