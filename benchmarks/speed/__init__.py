"""Times layers and training beside bare matrix products, other layers or a copy."""
