"""Costs of single operations, as measured on one processor (Zen 4). Estimates are sums of multiples of these.

There are two units. An *operation* is one addition or multiplication of one number. A *start* is the time in which one
of the two vector units of a core starts an operation: half a cycle. A multiply-add of vectors of 16 numbers is one
start and 32 operations.
"""

# ---- in starts, of one vector ---------------------------------------------------------------------------------------

PRODUCT = 1.0
"""A multiply-add of a sum of products."""
LOAD = 1.0
"""A load of an operand of such a sum that lies in one line of the cache."""
LOAD_ACROSS = 2.0
"""A load of an operand that lies in two lines of the cache."""
LOAD_ELEMENT = 2.0
"""A load of one number of an operand, where the numbers of a vector do not lie side by side."""
ADD_LANES = 16.0
"""The sum of the numbers of a vector, at the end."""
MOVE = 2.0
"""A load or a store beside the sum."""
NEAR_MOVE = 4.0
"""A vector of 64 bytes that is moved from or to the second-level cache."""
MOVE_ELEMENT = 4.0
"""A load or a store of one number beside the sum, where the numbers of a vector do not lie side by side."""
MASKED = 12.0
"""A load or a store of some lanes of a vector, on a processor that does this slowly (see `Target.has_masks`)."""
SLIDE = 1.5
"""Numbers of a vector that move to other lanes."""
BOUND = 1.0
"""The larger or smaller of two numbers: a comparison and a choice."""
LATENCY = 4.0
"""For how many times as long as an operation takes others wait for its result. The latency of an addition is four
cycles; but half of the instructions of an expensive operation can run at the same time."""
LATENCY_OF_INTEGERS = 1.0
"""The same for operations on integers, which take one cycle."""
NEXT_ROW = 4.0
"""An access that goes to another row of its buffer at every step."""
LOOP = 24.0
"""The beginning and the end of a loop."""

# ---- in operations, of threads --------------------------------------------------------------------------------------

SMALLEST_NEST = 16384
"""A nest of known size with less work than this runs on one thread."""
WAKING = 2e6
"""A call with several threads takes this much longer: the call is no single step of machine code, and the threads wait
for each other when it begins and ends. (Soon after another call it is a third of this; if the threads sleep, twice as
much.)"""
LEAST_GAIN = 1.25
"""A program runs on several threads if one thread should take at least this many times as long."""
PIECE = 4e6
"""A nest is computed about this many operations at a time, which takes a few milliseconds, so that an interrupt ends it
soon."""
MEETING = 3e4
"""A meeting of threads, where all of them wait for the last."""
NEAR_BYTE = 1.0
"""A byte that is read from a cache of the core. Steps with a batch of one take the time to read their weights, not that
to compute."""
FAR_BYTE = 1.25
"""A byte that is read from farther away."""
FOREIGN_BYTE = 2.0
"""A byte that a thread with rows of its own takes from the cache of another core. Really, such a byte takes some 17
operations. But a thread without rows of its own also takes bytes of the states from other cores, in every step, and
`MEETING` does not count these. With this rate, both ways are equal for about as many steps as measured."""
