"""The parts specific to finding similar questions; ``baselines`` rank without a network."""
