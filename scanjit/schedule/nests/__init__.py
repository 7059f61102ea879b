"""The loop-nest IR: what lies between a graph and its source code."""
