"""Sorting one long row of words, or only some entries of it, as Python source.

A *segment* of the row is split at a word, the *cut*: words below it come first, in the order in which they were, then
the others. In each vector, the lanes of either kind move to its front, and are stored whole behind those before them.
Then both parts are split again. Short segments are sorted by a network (`codegen.network`).

The cut is the median of some words. If many segments within each other were split badly, cuts are in the middle of the
numbers that the words of a segment may be: so there are at most as many splits more as a word has bits.
"""

from scanjit.codegen.lines import indented
from scanjit.codegen.network import along, in_vector
from scanjit.codegen.stretches import vectors
from scanjit.codegen.words import Words
from scanjit.schedule.nests import ALONG

TURNS = 64
"""So many segments within each other are split at medians."""
SECOND = {"start": "start + at", "many": "many - at", "low": "cut", "high": "high", "turns": "turns"}
"""What is known of a segment, for the second part of one that was split: where it starts, how many words it has, bounds
of these, and how often it may still be split at a median."""


def quicksort(words: Words, lanes: int, n: str, wanted: tuple[str, str] | None = None) -> list[str]:
    """Sort the `n` words at the address `words`, with as much memory at `others`. If their places lie beside them,
    these are at `places`, with memory at `further`.

    If not all entries are `wanted`, numbers `wanted[0]` to `wanted[1]` at the address `asked` say which: only these are
    right afterwards.
    """
    each = 8 * len(SECOND)
    room = f"pending + waiting*{each}"
    pushed = [f"store_i64({room} + {8 * k}, {value})" for k, value in enumerate(SECOND.values())]
    popped = [f"{name} = load_i64({room} + {8 * k})" for k, name in enumerate(SECOND)]
    return [
        f"pending = stack({each * (TURNS + 8 * words.size + 2)})",
        *[f"short_{name}s = stack({(ALONG + lanes) * words.size})" for name in words.names],
        "waiting = 0",
        "start = 0",
        f"many = {n}",
        f"low = {-words.most - 1}",
        f"high = {words.most}",
        f"turns = {TURNS}",
        "going = True",
        "while going:",
        *indented(_left_out(*wanted) if wanted else []),
        *[f"    part_{name}s = {name}s + start*{words.size}" for name in words.names],
        f"    if many > {ALONG} and low < high:",
        *indented([*_cut(words, lanes), *_split(words, lanes)], 2),
        "        turns -= 1",
        *indented(pushed, 2),  # the second part waits, while the first one is sorted
        "        waiting += 1",
        "        many = at",
        "        high = cut - 1",
        "    else:",
        "        if many > 1 and low < high:",
        *indented(_short(words, lanes), 3),
        "        going = waiting > 0",
        "        if going:",
        "            waiting -= 1",
        *indented(popped, 3),
    ]


def _left_out(since: str, till: str) -> list[str]:
    """Take a segment for empty if none of its entries is wanted. Short ones are sorted rather than that many numbers
    are looked through."""
    return [
        f"if {till} - {since} < many:",
        "    found = 0",
        f"    for j in range({since}, {till}):",
        "        rank = load_i64(asked + j*8) - start",
        "        if rank >= 0 and rank < many:",
        "            found += 1",
        "    if found == 0:",
        "        many = 0",
    ]


def _cut(words: Words, lanes: int) -> list[str]:
    """Choose the cut, above `low` and at most `high`: nearly the median of the medians of three times three vectors."""
    name, size = f"{words.kept.name}x{lanes}", words.size

    def median(found: str, a: str, b: str, c: str) -> str:
        return f"{found} = maximum(minimum({a}, {b}), minimum(maximum({a}, {b}), {c}))"

    lines = ["cut = (low & high) + ((low ^ high) >> 1) + 1", "if turns > 0:"]
    inner = [f"x{k} = load_{name}(part_words + (many - {lanes})*{k}//8*{size})" for k in range(9)]
    inner += [median(f"y{k}", f"x{k}", f"x{k + 3}", f"x{k + 6}") for k in range(3)]
    inner.append(median("a", "y0", "y1", "y2"))
    inner += in_vector(Words(words.kept.dtype, False, False), lanes)
    inner += [f"cut = lane_i64(a, {lanes // 2})", "if cut == low:", "    cut += 1"]
    return [*lines, *indented(inner)]


def _split(words: Words, lanes: int) -> list[str]:
    """Move the words below the cut to the front of a segment, and count them: `at`."""
    name, size = f"{words.kept.name}x{lanes}", words.size
    homes = list(zip(words.names, ("others", "further"), strict=False))

    def part(inside: str) -> list[str]:
        lines = [f"{each} = {_read(words, lanes, f'part_{each}s + i*{size}', inside)}" for each in words.names]
        for mask, compared in (("under", "word < cuts"), ("over", "word >= cuts")):
            lines.append(f"{mask} = ({compared}) & {inside}" if inside else f"{mask} = {compared}")
        for each, other in homes:
            for place, mask in ((f"part_{each}s + at*{size}", "under"), (f"{other} + (i - at)*{size}", "over")):
                some = f"head_x{lanes}(count_lanes({mask}))" if inside else ""
                lines.append(_write(place, f"compress({each}, {mask})", some))
        return [*lines, "at += count_lanes(under)"]

    def back(inside: str) -> list[str]:
        return [
            _write(f"part_{each}s + (at + i)*{size}", _read(words, lanes, f"{other} + i*{size}", inside), inside)
            for each, other in homes
        ]

    moved = [*vectors("many", part, lanes), "above = many - at", *vectors("above", back, lanes)]
    return [f"cuts = splat_{name}(cut)", "at = 0", *moved]


def _short(words: Words, lanes: int) -> list[str]:
    """Sort a short segment, in memory of its own."""
    places = [(f"part_{each}s + i*{words.size}", f"short_{each}s + i*{words.size}") for each in words.names]

    def into(inside: str) -> list[str]:
        most = f"select({inside}, {{}}, {words.most})" if inside else "{}"
        return [_write(short, most.format(_read(words, lanes, part, inside))) for part, short in places]

    def back(inside: str) -> list[str]:
        return [_write(part, _read(words, lanes, short), inside) for part, short in places]

    return [*vectors("many", into, lanes), *along(words, lanes, "many", "short_"), *vectors("many", back, lanes)]


def _read(words: Words, lanes: int, place: str, inside: str = "") -> str:
    """A vector of words, or of their places; the lanes of a mask, if it has a name."""
    name = f"{words.kept.name}x{lanes}"
    return f"load_masked_{name}({place}, {inside})" if inside else f"load_{name}({place})"


def _write(place: str, value: str, inside: str = "") -> str:
    return f"store_masked({place}, {value}, {inside})" if inside else f"store({place}, {value})"
