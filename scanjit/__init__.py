"""Loops over time, compiled: recurrences written in Python, with gradients, at the speed of hand-written kernels."""

__version__ = "0.1.0"
