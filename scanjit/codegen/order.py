"""The order of rows as Python source: insertion for short rows, and a radix sort for others.

Each element becomes an integer, its *key*, so that all keys have a total order: of floats, -0.0 has the key of 0.0, and
NaN the largest one. So what comes out is always a permutation. Elements of less than 64 bits share a *word* with their
place: the key is its upper half, and the place its lower half. Others have their places beside them.
"""

import numpy as np

from scanjit.codegen.names import suffix
from scanjit.codegen.source import Parameters, Source
from scanjit.kinds import KINDS, kind_of
from scanjit.schedule.nests import Order
from scanjit.types import product

SHORT = 48
"""Rows of at most so many elements are sorted by insertion."""
LONG = 4096
"""Longer rows are sorted by 11 bits at a time, others by 8: a table of 256 counters is added up in no time."""
LOOK = ("if interrupted(line):", "    return")


def order_source(statement: Order) -> Source:
    """The source of a function that finds the order of all rows, one after the other."""
    return _OrderWriter(statement).source()


class _OrderWriter:
    """Writes the lines of a function."""

    def __init__(self, statement: Order) -> None:
        self.statement = statement
        self.parameters = Parameters()
        self.kind = kind_of(statement.values.buffer.dtype)
        self.packed = statement.values.buffer.dtype.itemsize < 8
        self.n = self.parameters.number(statement.values.shape[-1])

    def source(self) -> Source:
        """The loop over rows. `words` and `places` are where a row begins, `others` and `beside` its second home."""
        n, size = self.n, self.statement.values.buffer.dtype.itemsize
        values, order, spare = (self.parameters.address(ref.buffer, ref.offset) for ref in self.statement.places)
        rows = self.parameters.number(product(self.statement.values.shape[:-1]))
        lines = [f"for row in range({rows}):", *_inside(LOOK), f"    first = {values} + row*{n}*{size}"]
        lines += [f"    order = {order} + row*{n}*8"]
        if self.packed:
            lines += ["    words = order", f"    others = {spare}"]
        else:
            lines += [f"    words = {spare}", "    places = order"]
            lines += [f"    others = {spare} + {n}*8", f"    beside = {spare} + 2*{n}*8"]
        length = self.statement.values.shape[-1]
        if isinstance(length, int):
            lines += _inside(self._insertion() if length <= SHORT else self._radix())
        else:
            lines += [f"    if {n} <= {SHORT}:", *_inside(_inside(self._insertion()))]
            lines += ["    else:", *_inside(_inside(self._radix()))]
        return self.parameters.source(self.statement.title, _inside(lines), ["line"])

    def _word(self) -> list[str]:
        """Compute the `word` of element `i`."""
        kind, size = self.kind, self.statement.values.buffer.dtype.itemsize
        stored = KINDS[kind.moved]
        value = f"load_{suffix(stored.dtype, 1)}(first + i*{size})"
        if not kind.floating:
            lines = [f"word = lane_i64({value}, 0)"]
        else:
            most = 2 ** (kind.bits - 1) - 1
            infinite = int(np.array(np.inf, self.statement.values.buffer.dtype).view(f"i{size}"))
            lines = [
                f"word = lane_i64(bitcast_i{kind.bits}x1({value}), 0)",
                "if word < 0:",  # a sign and a magnitude become a negative number
                f"    word = -{most} - 1 - word",
                f"if word > {infinite} or word < -{infinite}:",
                f"    word = {most}",
            ]
        return [*lines, "word = (word << 32) | i"] if self.packed else lines

    def _insertion(self) -> list[str]:
        """Put each word behind those that are not larger."""
        packed = self.packed
        lines = [
            f"for i in range({self.n}):",
            *_inside(self._word()),
            "    k = i",
            "    while k > 0:",
            "        other = load_i64(words + (k - 1)*8)",
            "        if other <= word:",
            "            break",
            "        store_i64(words + k*8, other)",
            *([] if packed else ["        store_i64(places + k*8, load_i64(places + (k - 1)*8))"]),
            "        k -= 1",
            "    store_i64(words + k*8, word)",
            *([] if packed else ["    store_i64(places + k*8, i)"]),
        ]
        return lines + self._unpacked() if packed else lines

    def _radix(self) -> list[str]:
        """Distribute the words by some of their bits, the lowest first, from one home to the other."""
        packed, n = self.packed, self.n
        low, high = (32, 32 + 8 * self.kind.size + self.kind.never_negative) if packed else (0, 64)
        digit = "((word >> shift) & (many - 1)) ^ sign"
        exchanged = [("words", "others")] if packed else [("words", "others"), ("places", "beside")]
        lines = [
            "bits = 8",
            f"if {n} > {LONG}:",
            "    bits = 11",
            "many = 1 << bits",
            f"counts = stack({2048 * 8})",
            f"for i in range({n}):",
            *_inside(self._word()),
            "    store_i64(words + i*8, word)",
            *([] if packed else ["    store_i64(places + i*8, i)"]),
            f"shift = {low}",
            f"while shift < {high}:",
            *_inside(LOOK),
            "    sign = 0",
            f"    if shift + bits >= {high}:",  # the highest bit tells negative numbers, which come first
            "        sign = many >> 1",
            "    for d in range(many):",
            "        store_i64(counts + d*8, 0)",
            "    place = counts",
            f"    for i in range({n}):",
            "        word = load_i64(words + i*8)",
            f"        place = counts + ({digit})*8",
            "        store_i64(place, load_i64(place) + 1)",
            f"    if load_i64(place) < {n}:",  # otherwise all have the same bits here
            "        total = 0",
            "        for d in range(many):",
            "            count = load_i64(counts + d*8)",
            "            store_i64(counts + d*8, total)",
            "            total += count",
            f"        for i in range({n}):",
            "            word = load_i64(words + i*8)",
            f"            place = counts + ({digit})*8",
            "            at = load_i64(place)",
            "            store_i64(place, at + 1)",
            "            store_i64(others + at*8, word)",
            *([] if packed else ["            store_i64(beside + at*8, load_i64(places + i*8))"]),
            *(
                f"        {line}"
                for one, other in exchanged
                for line in (f"kept = {one}", f"{one} = {other}", f"{other} = kept")
            ),
            "    shift += bits",
        ]
        return lines + (self._unpacked() if packed else self._brought_back())

    def _unpacked(self) -> list[str]:
        """Take the places out of the words."""
        return [f"for i in range({self.n}):", "    store_i64(order + i*8, load_i64(words + i*8) & 4294967295)"]

    def _brought_back(self) -> list[str]:
        """Copy the places to where they belong, if they lie in their second home."""
        copied = ["    store_i64(order + i*8, load_i64(places + i*8))"]
        return ["if places != order:", *_inside([f"for i in range({self.n}):", *copied])]


def _inside(lines: list[str] | tuple[str, ...]) -> list[str]:
    return ["    " + line for line in lines]
