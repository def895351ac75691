"""Times layers and training beside their bare matrix products."""
