"""The numbers that estimates of cost are made of, as they were measured on one processor (Zen 4).

Two units occur. A *slot* is the time in which one vector unit starts one operation: half a cycle, as there are two of
them. An *operation* is one addition or multiplication of one number: a multiply-add of a vector of 16 numbers is one
slot, and 32 operations.
"""

# ---- in slots, of one vector ----------------------------------------------------------------------------------------

PRODUCT = 1.0
"""A multiply-add."""
LOAD = 1.0
"""A load of a vector that lies in one line of the cache."""
LOAD_ACROSS = 2.0
"""A load of a vector that lies in two lines of the cache."""
STORE = 2.0
"""A store of a vector."""
LOAD_ELEMENT = 2.0
"""A load of one element of a vector, where the elements do not lie side by side."""
MOVE_ELEMENT = 4.0
"""A load or a store of one such element, beside the products."""
ADD_LANES = 16.0
"""The sum of the lanes of one vector."""
LATENCY = 4.0
"""How long an operation waits for the result of another: two cycles' worth of slots, as one takes four cycles, and much
of what an expensive operation consists of can be done side by side."""
NEXT_ROW = 4.0
"""The way to the next row of a buffer at every step, where a step reads no more of a row than one vector."""

# ---- in operations, of threads ---------------------------------------------------------------------------------------

SMALLEST_NEST = 16384
"""A nest of known size with less work than this runs on one thread."""
SMALLEST_PROGRAM = 8e6
"""A program with less work than this runs on one thread: to wake the others costs more."""
SMALLEST_STRETCH = 1e5
"""Threads must have this much work, on average, between two meetings."""
PIECE = 4e6
"""A nest is computed about so many operations at a time, a millisecond or a few, so that an interrupt ends it soon."""
MEETING = 3e4
"""A meeting of threads."""
NEAR_BYTE = 1.0
"""A byte that is read from the cache of the core: a step of a batch of one reads weights rather than computing."""
FAR_BYTE = 1.25
"""A byte that is read from farther away."""
