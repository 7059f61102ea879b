"""Random programs, and the checks that generated code computes what the reference interpreter computes.

`python -m tests.fuzz --count 10000` runs many; `--only SEED` runs one again and shows it.
"""
