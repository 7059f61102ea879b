"""A radix sort of one long row as Python source: words are distributed by some of their bits, the lowest first."""

from collections.abc import Callable

from scanjit.codegen.lines import LOOK, indented
from scanjit.codegen.words import Words

LONG = 4096
"""Longer rows are sorted by 11 bits at a time. Shorter ones by 8 bits, as the sum of 256 counters takes no time."""
STRETCH = 2**20
"""After this many elements, a thread looks whether to end. Each element takes some nanoseconds."""


def radix(words: Words, n: str) -> list[str]:
    """Sort the `n` words at the address `words`, with as much memory at `others`. If their places lie beside them,
    these are at `places`, with memory at `further`. Afterwards, `words` and `places` are the addresses of the sorted
    ones."""
    low, high = words.digits
    exchanged = [("words", "others"), ("places", "further")] if words.beside else [("words", "others")]
    digit = [f"number = {loaded(words)}", "slot = counts + (((number >> shift) & (many - 1)) ^ sign)*8"]
    moved = ["at = load_i64(slot)", "store_i64(slot, at + 1)", stored(words, f"others + at*{words.size}")]
    if words.beside:
        moved.append("store_i64(further + at*8, load_i64(places + i*8))")
    return [
        "bits = 8",
        f"if {n} > {LONG}:",
        "    bits = 11",
        "many = 1 << bits",
        f"counts = stack({2048 * 8})",
        f"shift = {low}",
        f"while shift < {high}:",
        "    sign = 0",
        f"    if shift + bits >= {high}:",  # the highest bit tells negative numbers, which come first
        "        sign = many >> 1",
        "    for d in range(many):",
        "        store_i64(counts + d*8, 0)",
        "    slot = counts",
        *indented(stretches(n, [*digit, "store_i64(slot, load_i64(slot) + 1)"])),
        f"    if load_i64(slot) < {n}:",  # otherwise all have the same bits here
        "        total = 0",
        "        for d in range(many):",
        "            count = load_i64(counts + d*8)",
        "            store_i64(counts + d*8, total)",
        "            total += count",
        *indented(stretches(n, [*digit, *moved]), 2),
        *indented((line for pair in exchanged for line in _exchanged(*pair)), 2),
        "    shift += bits",
    ]


def _exchanged(one: str, other: str) -> list[str]:
    return [f"kept = {one}", f"{one} = {other}", f"{other} = kept"]


def stretches(n: str, lines: list[str], lanes: int = 1) -> list[str]:
    """The loop over the elements of a long row, with a look whether to end now and then."""
    return [
        f"for stretch in range(0, {n}, {STRETCH}):",
        *indented(LOOK),
        f"    for i in range(stretch, min(stretch + {STRETCH}, {n}), {lanes}):",
        *indented(lines, 2),
    ]


def vectors(n: str, part: Callable[[str], list[str]], lanes: int) -> list[str]:
    """The same for vectors of `lanes` elements. `part` gives the lines for one, from the name of the mask of the
    elements that there are; for whole vectors it has no name."""
    return [
        *stretches(f"({n} - {lanes - 1})", part(""), lanes),
        f"i = {n}//{lanes}*{lanes}",
        f"if i < {n}:",
        f"    inside = head_x{lanes}({n} - i)",
        *indented(part("inside")),
    ]


def loaded(words: Words, i: str = "i") -> str:
    """Word `i` as a number."""
    return f"load_i64(words + {i}*8)" if words.size == 8 else f"lane_i64(load_i32x1(words + {i}*4), 0)"


def stored(words: Words, at: str) -> str:
    """A line that stores the word `number` at an address."""
    return f"store_i64({at}, number)" if words.size == 8 else f"store({at}, splat_i32x1(number))"
