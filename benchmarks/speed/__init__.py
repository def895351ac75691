"""How much time layers and training take, and beside what."""
