"""From graph to tasks: where nodes lie in memory, and how each op is computed there."""
