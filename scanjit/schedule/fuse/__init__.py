"""Which tasks are computed in one nest, and in which order."""
