"""Speed of scanjit against the same recurrences written by hand: `python -m benchmarks`."""
