"""From loop nests to Python source. `generate` begins it."""
