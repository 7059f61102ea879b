"""Sorting networks as Python source: which words are compared does not depend on their values.

Many rows are sorted side by side, one in each lane (`across`), by Batcher's merge exchange for any number of words
(Knuth, The Art of Computer Programming, volume 3, algorithm 5.2.2M). A single row lies in consecutive words, and is
sorted in registers, some vectors at a time, and merged by Batcher's bitonic sorter (`along`): words that it compares
lie in two whole vectors, or all in one.
"""

from collections.abc import Sequence

from scanjit.codegen.lines import indented
from scanjit.codegen.words import Words
from scanjit.ops.sorting import exchanges

Names = tuple[str, ...]
"""The variables for a vector of words, and for their places."""
AU: Names = ("a", "u")
BV: Names = ("b", "v")


def across(words: Words, lanes: int, n: str) -> list[str]:
    """Sort `lanes` rows of `n` words. Vector i from the address `words` on has word i of each row (and from `places`
    on, their places)."""
    width = lanes * words.size
    first, second = f"i*{width}", f"(i + d)*{width}"
    compared = [*_loaded(words, lanes, "", first, AU), *_loaded(words, lanes, "", second, BV)]
    compared += _exchanged(words, AU, BV)
    compared += [*_stored(words, "", first, AU), *_stored(words, "", second, BV)]
    return [
        "top = 1",
        f"while 2*top < {n}:",
        "    top = 2*top",
        "p = top",
        f"while p > 0 and {n} > 1:",
        "    q = top",
        "    r = 0",
        "    d = p",
        "    while d > 0:",  # words i and i + d are compared if bit p of i is that of r
        "        run = r",
        f"        while run < {n} - d:",
        f"            for i in range(run, min(run + p, {n} - d)):",
        *indented(compared, 4),
        "            run += 2*p",
        "        d = q - p",  # 0 after the last stage
        "        q = q >> 1",
        "        r = p",
        "    p = p >> 1",
    ]


def along(words: Words, lanes: int, n: str, many: int, part: str = "") -> list[str]:
    """Sort one row of `n` words at the address `words`, or at that of a `part`. The last vector is filled up with the
    largest word. Behind it, there is room up to a multiple of `many` vectors.

    Blocks of `many` vectors are sorted in registers. Runs of `p` sorted words are merged, two at a time: the first word
    meets the last one of both runs, the second word the last but one, and so on. Then words at the distances p/2,
    p/4... meet, those within a block in registers. Those that would meet words behind the end stay where they are, as
    if these were the largest.
    """
    here, there = f"i*{words.size}", f"j*{words.size}"
    most = f"splat_{words.kept.name}x{lanes}({words.most})"

    def blocks(lines: Sequence[str]) -> list[str]:
        places = [f"(i + {k * lanes})*{words.size}" for k in range(many)]
        loads = [line for k in range(many) for line in _loaded(words, lanes, part, places[k], _vector(k))]
        stores = [line for k in range(many) for line in _stored(words, part, places[k], _vector(k))]
        return [f"for i in range(0, whole, {many * lanes}):", *indented([*loads, *lines, *stores])]

    def pair(turn: Sequence[str]) -> list[str]:
        both = [*_loaded(words, lanes, part, here, AU), *_loaded(words, lanes, part, there, BV), *turn]
        both += _exchanged(words, AU, BV)
        return [*both, *turn, *_stored(words, part, here, AU), *_stored(words, part, there, BV)]

    turned = [f"{name} = reversed_lanes({name}, {name})" for name in _names(words, BV)]
    return [
        f"whole = ({n} + {many * lanes - 1})//{many * lanes}*{many * lanes}",
        f"for i in range(({n} + {lanes - 1})//{lanes}*{lanes}, whole, {lanes}):",
        *[f"    store({part}{home}s + {here}, {most})" for home in words.names],
        *blocks(in_block(words, lanes, many)),
        f"p = {many * lanes}",
        "while p < whole:",
        "    for run in range(0, whole - p, 2*p):",
        f"        for i in range(max(run, 2*run + 2*p - whole), run + p, {lanes}):",
        f"            j = 2*run + 2*p - {lanes} - i",
        *indented(pair(turned), 3),
        "    d = p >> 1",
        f"    while d >= {many * lanes}:",
        "        for run in range(0, whole - d, 2*d):",
        f"            for i in range(run, min(run + d, whole - d), {lanes}):",
        "                j = i + d",
        *indented(pair([]), 4),
        "        d = d >> 1",
        *indented(blocks(_merged_block(words, lanes, many))),
        "    p = 2*p",
    ]


def block(words: Words, lanes: int, most: int) -> int:
    """How many vectors of rows of at most so many words are sorted in registers. Processors have 16 registers or more,
    and a vector of places takes one of its own."""
    many = 4 if words.beside else 8
    while many > 1 and many // 2 * lanes >= most:
        many //= 2
    return many


def in_block(words: Words, lanes: int, many: int) -> list[str]:
    """Sort the words of `many` vectors: first those of each lane, then those of two lanes that are neighbours, of four
    lanes, and so on. The words of such lanes are in order vector by vector."""
    lines = [line for pair in exchanges(many) for line in _exchanged(words, *map(_vector, pair))]
    for width in _powers(lanes):
        flip = 2 * width - 1
        for run in reversed(_powers(many)):
            for i in range(many):
                if not i & run:  # the first vector of a run of 2*run meets the last one
                    first, last = _vector(i), _vector(i ^ (2 * run - 1))
                    lines += [f"{name} = partners{flip}({name}, {name})" for name in _names(words, last)]
                    lines += _exchanged(words, first, last)
        for k in range(many):
            for distance in (flip, *reversed(_powers(width))):
                lines += _within(words, _vector(k), distance)
    return lines


def _merged_block(words: Words, lanes: int, many: int) -> list[str]:
    """Sort the words of `many` vectors that rise up to one of them and then fall, or the other way round."""
    lines = []
    for run in reversed(_powers(many)):
        for i in range(many):
            if not i & run:
                lines += _exchanged(words, _vector(i), _vector(i + run))
    return lines + [
        line for k in range(many) for d in reversed(_powers(lanes)) for line in _within(words, _vector(k), d)
    ]


def in_vector(words: Words, lanes: int) -> list[str]:
    """Sort the words of one vector, `a`, with their places, `u`, if they have any."""
    lines: list[str] = []
    for p in _powers(lanes):
        for flip in (2 * p - 1, *reversed(_powers(p))):
            lines += _within(words, AU, flip)
    return lines


def _powers(end: int) -> list[int]:
    """The powers of two below a power of two."""
    return [1 << k for k in range(end.bit_length() - 1)]


def _within(words: Words, both: Names, flip: int) -> list[str]:
    """Compare the words of one vector whose lanes differ in the bits of `flip`. The smaller ones go to the lanes in
    which the highest of these bits is not set."""
    pairs = list(zip(_names(words, both), _names(words, BV), strict=True))
    met = [f"{b} = partners{flip}({a}, {a})" for a, b in pairs]
    chosen = [f"{a} = alternate{1 << (flip.bit_length() - 1)}({a}, {b})" for a, b in pairs]
    return [*met, *_exchanged(words, both, BV), *chosen]


def _vector(k: int) -> Names:
    """The variables for vector number k of a block."""
    return f"a{k}", f"u{k}"


def _names(words: Words, both: Names) -> Names:
    """The variables for a vector of words, and for their places if they have any."""
    return both[: len(words.names)]


def _loaded(words: Words, lanes: int, part: str, at: str, both: Names) -> list[str]:
    pairs = zip(words.names, _names(words, both), strict=True)
    return [words.load(f"{part}{home}s + {at}", lanes, name) for home, name in pairs]


def _stored(words: Words, part: str, at: str, both: Names) -> list[str]:
    pairs = zip(words.names, _names(words, both), strict=True)
    return [f"store({part}{home}s + {at}, {name})" for home, name in pairs]


def _exchanged(words: Words, first: Names, second: Names) -> list[str]:
    """Exchange two words, with their places, wherever they are not in order."""
    (a, u), (b, v) = first, second
    if not words.beside:  # LLVM would store some lanes of a selection, if it is a vector that was loaded there
        return [f"lesser = opaque(minimum({a}, {b}))", f"{b} = opaque(maximum({a}, {b}))", f"{a} = lesser"]
    lines = [f"later = ({b} < {a}) | (({b} == {a}) & ({v} < {u}))"]
    for one, other in ((a, b), (u, v)):
        lines.append(f"lesser = opaque(select(later, {other}, {one}))")
        lines += [f"{other} = opaque(select(later, {one}, {other}))", f"{one} = lesser"]
    return lines
