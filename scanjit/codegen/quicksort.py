"""Sorting one long row of words, or only some entries of it, as Python source.

A *segment* of the row is split at a word, the *cut*. In each vector, the words below it move to the front, and the
others to the back. It is stored whole twice: behind the words below the cut that came before, and in a second memory of
the same size in front of the others that came before. Then both parts are split again, each to and fro between the two
memories. In the first memory, equal words stay in order; in the second one, they are backwards. Short segments are
sorted by a network (`codegen.network`), and put into the first memory.

The cut is the median of some words. If only some entries are wanted, and they are near each other, it is a word of a
sample that is probably behind them or before them all, so that few words are left with them. After `TURNS` splits
within each other, cuts have been bad. From then on, the cut is the middle between the bounds of the words of a segment,
so there are at most as many further splits as a word has bits.
"""

from scanjit.codegen.lines import indented, loaded, stored, stretches, vectors
from scanjit.codegen.network import along, block, in_block, in_vector
from scanjit.codegen.words import Words
from scanjit.schedule.nests import ALONG, SORTED

TURNS = 64
"""So many segments within each other are split at words of a sample."""
SAMPLED = 8
"""If some entries are wanted, so many vectors of a segment are its sample."""
MARGIN = 2
"""How many places of the sample lie between the wanted entries and the cut."""
SECOND = {
    "start": "start + at",
    "many": "many - at",
    "low": "cut",
    "high": "high",
    "turns": "turns",
    "away": "-away",
}
"""What is known of a segment, for the second part of one that was split: where it starts, how many words it has, bounds
of these, how often it may still be split at a median, and how far it is to the other memory."""


def quicksort(
    words: Words, lanes: int, n: str, wanted: tuple[str, str] | None = None, whole: bool = False
) -> list[str]:
    """Sort the `n` words at the address `words`, with as much memory at `others`. If their places lie beside them,
    these are at `places`, with as much memory as far from there.

    If not all entries are `wanted`, numbers `wanted[0]` to `wanted[1]` at the address `asked` say which: only these are
    right afterwards. If it is `whole`, the others are there, too: the smaller ones before them, the larger ones behind.
    """
    each = 8 * len(SECOND)
    room = f"pending + waiting*{each}"
    pushed = [f"store_i64({room} + {8 * k}, {value})" for k, value in enumerate(SECOND.values())]
    popped = [f"{name} = load_i64({room} + {8 * k})" for k, name in enumerate(SECOND)]
    found = " and found > 0" if whole else ""
    return [
        f"pending = stack({each * (TURNS + 8 * words.size + 2)})",
        *[f"short_{name}s = stack({ALONG * words.size})" for name in words.names],
        *([f"tried = stack({SAMPLED * lanes * words.size})"] if wanted else []),
        "waiting = 0",
        "start = 0",
        f"many = {n}",
        f"low = {-words.most - 1}",
        f"high = {words.most}",
        f"turns = {TURNS}",
        "near = others - words",
        "away = near",
        "going = True",
        "while going:",
        *indented(_asked(*wanted, whole) if wanted else []),
        f"    begin_part = start*{words.size} + (near - away)//2",
        *[f"    part_{name}s = {name}s + begin_part" for name in words.names],
        f"    if many > {SORTED if wanted else ALONG} and low < high{found}:",
        *indented([*_cut(words, lanes, bool(wanted)), *_split(words, lanes)], 2),
        "        turns -= 1",
        *indented(pushed, 2),  # the second part waits, while the first one is sorted
        "        waiting += 1",
        "        many = at",
        "        high = cut - 1",
        "    else:",
        f"        if low < high and many > 0{found}:",
        *indented(_short(words, lanes), 3),
        "        elif away < 0:",
        *indented(_home(words, lanes) if whole else _alike(words, lanes), 3),
        "        going = waiting > 0",
        "        if going:",
        "            waiting -= 1",
        *indented(popped, 3),
    ]


def _asked(since: str, till: str, whole: bool) -> list[str]:
    """Count the wanted entries of a segment, and find the `lowest` and the `highest` place of one: all, if it has fewer
    entries than numbers that had to be looked through. Without any, it stays as it is, or is taken for empty if the
    row need not be `whole`."""
    return [
        "found = many",
        "lowest = 0",
        "highest = many - 1",
        f"if {till} - {since} < many:",
        "    found = 0",
        "    lowest = many",
        "    highest = 0",
        f"    for j in range({since}, {till}):",
        "        rank = load_i64(asked + j*8) - start",
        "        if rank >= 0 and rank < many:",
        "            found += 1",
        "            lowest = min(lowest, rank)",
        "            highest = max(highest, rank)",
        *([] if whole else ["    if found == 0:", "        many = 0"]),
    ]


def _cut(words: Words, lanes: int, some: bool) -> list[str]:
    """Choose the cut, above `low` and at most `high`: for `some` entries, a word that is probably near them; else
    nearly the median of the medians of three times three vectors."""
    name, size = f"{words.kept.name}x{lanes}", words.size
    alone = Words(words.kept.dtype, False, False)

    def median(found: str, a: str, b: str, c: str) -> str:
        return f"{found} = maximum(minimum({a}, {b}), minimum(maximum({a}, {b}), {c}))"

    if some:
        last = SAMPLED * lanes - 1
        inner = [f"a{k} = load_{name}(part_words + (many - {lanes})*{k}//{SAMPLED - 1}*{size})" for k in range(SAMPLED)]
        inner += in_block(alone, lanes, SAMPLED)
        inner += [f"store(tried + {k * lanes * size}, a{k})" for k in range(SAMPLED)]
        inner += [
            f"nth = {SAMPLED * lanes // 2}",
            "if 2*(highest - lowest) < many:",
            f"    nth = lowest*{last}//many - {MARGIN}",
            "    if lowest + highest < many:",
            f"        nth = highest*{last}//many + {MARGIN}",
            f"a = broadcast_{name}(tried + min(max(nth, 0), {last})*{size})",
            "cut = lane_i64(a, 0)",
        ]
    else:
        inner = [f"x{k} = load_{name}(part_words + (many - {lanes})*{k}//8*{size})" for k in range(9)]
        inner += [median(f"y{k}", f"x{k}", f"x{k + 3}", f"x{k + 6}") for k in range(3)]
        inner.append(median("a", "y0", "y1", "y2"))
        inner += [*in_vector(alone, lanes), f"cut = lane_i64(a, {lanes // 2})"]
    middle = "cut = (low & high) + ((low ^ high) >> 1) + 1"
    return [middle, "if turns > 0:", *indented([*inner, "if cut == low:", "    cut += 1"])]


def _split(words: Words, lanes: int) -> list[str]:
    """Put the words below the cut at the front of a segment, in the same memory, and the others into the other memory,
    to where they belong; and count the words below: `at`.

    A vector is stored whole in both. So the vector behind is always loaded before.
    """
    name, size = f"{words.kept.name}x{lanes}", words.size

    def read(into: str, place: str) -> list[str]:
        return [f"{into}{each} = load_{name}(part_{each}s + ({place})*{size})" for each in words.names]

    def parted(behind: str) -> list[str]:
        lines = []
        for each in words.names:
            lines += [f"sides = to_ends({each}, under)", f"store(part_{each}s + at*{size}, sides)"]
            lines.append(f"store(part_{each}s + away + ({behind})*{size}, sides)")
        return [*lines, "at += count_lanes(under)"]

    again = [f"{each} = next_{each}" for each in words.names]
    each_vector = [
        *again,
        *read("next_", f"min(many - rest + i, many - {2 * lanes}) + {lanes}"),
        "under = word < cuts",
        *parted(f"at + rest - {lanes} - i"),
    ]
    return [
        f"cuts = splat_{name}(cut)",
        "at = 0",
        f"rest = (many - 1)//{lanes}*{lanes}",
        *read("", "0"),
        *read("next_", "many - rest"),
        f"under = (word < cuts) & head_x{lanes}(many - rest)",
        *parted(f"many - {lanes}"),
        *stretches("rest", each_vector, lanes),
    ]


def _short(words: Words, lanes: int) -> list[str]:
    """Sort a short segment, in memory of its own."""
    name, homes = f"{words.kept.name}x{lanes}", [(each, f"short_{each}s + i*{words.size}") for each in words.names]

    def into(inside: str) -> list[str]:
        reads = [loaded(name, f"part_{each}s + i*{words.size}", inside) for each in words.names]
        found = f"select({inside}, {{}}, {words.most})" if inside else "{}"
        return [stored(short, found.format(read)) for (_, short), read in zip(homes, reads, strict=True)]

    def back(inside: str) -> list[str]:
        return [stored(f"{each}s + (start + i)*{words.size}", loaded(name, at), inside) for each, at in homes]

    sorting = along(words, lanes, "many", block(words, lanes, ALONG), "short_")
    return [*vectors("many", into, lanes), *sorting, *vectors("many", back, lanes)]


def _alike(words: Words, lanes: int) -> list[str]:
    """Put a segment of equal words where it belongs. Their places lie backwards in the other memory."""
    name, size = f"{words.kept.name}x{lanes}", words.size
    back = [f"inside = head_x{lanes}(many - i)", stored(f"words + (start + i)*{size}", f"splat_{name}(low)", "inside")]
    if words.beside:
        place = f"load_strided_{name}(part_places + (many - 1 - i)*8, -8, inside)"
        back.append(stored("places + (start + i)*8", place, "inside"))
    return stretches("many", back, lanes)


def _home(words: Words, lanes: int) -> list[str]:
    """Copy a segment from the other memory to where it belongs."""
    name = f"{words.kept.name}x{lanes}"

    def part(inside: str) -> list[str]:
        reads = [loaded(name, f"part_{each}s + i*{words.size}", inside) for each in words.names]
        homes = [f"{each}s + (start + i)*{words.size}" for each in words.names]
        return [stored(home, read, inside) for home, read in zip(homes, reads, strict=True)]

    return vectors("many", part, lanes)
