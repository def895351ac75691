"""Neural layers derived from kernels over graphs and sequences, for PyTorch Geometric."""
