"""Loops over time: blocks of steps, sums over time, checkpoints."""
