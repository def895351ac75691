"""Language modelling as a task of the harness."""
