"""The shape of a nest: merged loops, lanes, register tiles, packed operands."""
