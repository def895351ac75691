"""What is particular to finding similar questions; ``baselines`` rank without a network."""
