"""Classification of texts as a task of the harness."""
