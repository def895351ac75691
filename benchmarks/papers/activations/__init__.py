"""Learned activations: a single unit on parity, one recurrent unit, memory over long sequences."""
