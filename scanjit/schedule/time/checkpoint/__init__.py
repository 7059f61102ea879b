"""Checkpoints: only some carries are kept, and the steps between are computed again."""
