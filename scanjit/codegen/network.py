"""Sorting networks as Python source: which words are compared does not depend on their values.

Many rows are sorted side by side, one in each lane (`across`), by Batcher's merge exchange for any number of words
(Knuth, The Art of Computer Programming, volume 3, algorithm 5.2.2M). A single row lies in consecutive words, and is
sorted by Batcher's bitonic sorter (`along`): words that it compares lie in two whole vectors, or all in one.
"""

from collections.abc import Sequence

from scanjit.codegen.lines import indented
from scanjit.codegen.words import Words


def across(words: Words, lanes: int, n: str) -> list[str]:
    """Sort `lanes` rows of `n` words. Vector i from the address `words` on has word i of each row (and from `places`
    on, their places)."""
    width = lanes * words.size
    first, second = f"i*{width}", f"(i + d)*{width}"
    compared = [*_loaded(words, lanes, "", first, "au"), *_loaded(words, lanes, "", second, "bv"), *_exchanged(words)]
    compared += [*_stored(words, "", first, "au"), *_stored(words, "", second, "bv")]
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


def along(words: Words, lanes: int, n: str, part: str = "") -> list[str]:
    """Sort one row of `n` words at the address `words`, or that of a `part`. Behind them, up to a multiple of `lanes`,
    lies the largest word.

    Runs of `p` sorted words are merged, two at a time: the first word meets the last one of both runs, the second word
    the last but one, and so on. Then words at the distances p/2, p/4... meet. Those that would meet words behind the
    end stay where they are, as if these were the largest.
    """
    here, there = f"i*{words.size}", f"j*{words.size}"

    def single(lines: Sequence[str]) -> list[str]:
        moved = [*_loaded(words, lanes, part, here, "au"), *lines, *_stored(words, part, here, "au")]
        return [f"for i in range(0, whole, {lanes}):", *indented(moved)] if lines else []

    def pair(turn: Sequence[str]) -> list[str]:
        both = [*_loaded(words, lanes, part, here, "au"), *_loaded(words, lanes, part, there, "bv"), *turn]
        return [*both, *_exchanged(words), *turn, *_stored(words, part, here, "au"), *_stored(words, part, there, "bv")]

    turned = [f"{name} = reversed_lanes({name}, {name})" for name in _names(words, "bv")]
    merged = [line for d in reversed(_powers(lanes)) for line in _within(words, d)]
    return [
        f"whole = ({n} + {lanes - 1})//{lanes}*{lanes}",
        *single(in_vector(words, lanes)),
        f"p = {lanes}",
        "while p < whole:",
        "    for run in range(0, whole - p, 2*p):",
        f"        for i in range(max(run, 2*run + 2*p - whole), run + p, {lanes}):",
        f"            j = 2*run + 2*p - {lanes} - i",
        *indented(pair(turned), 3),
        "    d = p >> 1",
        f"    while d >= {lanes}:",
        "        for run in range(0, whole - d, 2*d):",
        f"            for i in range(run, min(run + d, whole - d), {lanes}):",
        "                j = i + d",
        *indented(pair([]), 4),
        "        d = d >> 1",
        *indented(single(merged)),
        "    p = 2*p",
    ]


def in_vector(words: Words, lanes: int) -> list[str]:
    """Sort the words of one vector, `a`, with their places, `u`, if they have any."""
    lines: list[str] = []
    for p in _powers(lanes):
        for flip in (2 * p - 1, *reversed(_powers(p))):
            lines += _within(words, flip)
    return lines


def _powers(end: int) -> list[int]:
    """The powers of two below a power of two."""
    return [1 << k for k in range(end.bit_length() - 1)]


def _within(words: Words, flip: int) -> list[str]:
    """Compare the words of one vector whose lanes differ in the bits of `flip`. The smaller ones go to the lanes in
    which the highest of these bits is not set."""
    pairs = list(zip(_names(words, "au"), _names(words, "bv"), strict=True))
    met = [f"{b} = partners{flip}({a}, {a})" for a, b in pairs]
    chosen = [f"{a} = alternate{1 << (flip.bit_length() - 1)}({a}, {b})" for a, b in pairs]
    return [*met, *_exchanged(words), *chosen]


def _names(words: Words, both: str) -> str:
    """The variables for a vector of words, and for their places if they have any."""
    return both[: len(words.names)]


def _loaded(words: Words, lanes: int, part: str, at: str, both: str) -> list[str]:
    pairs = zip(words.names, _names(words, both), strict=True)
    return [words.load(f"{part}{home}s + {at}", lanes, name) for home, name in pairs]


def _stored(words: Words, part: str, at: str, both: str) -> list[str]:
    pairs = zip(words.names, _names(words, both), strict=True)
    return [f"store({part}{home}s + {at}, {name})" for home, name in pairs]


def _exchanged(words: Words) -> list[str]:
    """Exchange the words a and b, with their places u and v, wherever they are not in order."""
    if not words.beside:  # LLVM would store some lanes of a selection, if it is a vector that was loaded there
        return ["lesser = opaque(minimum(a, b))", "b = opaque(maximum(a, b))", "a = lesser"]
    lines = ["later = (b < a) | ((b == a) & (v < u))"]
    for one, other in ("ab", "uv"):
        lines.append(f"lesser = opaque(select(later, {other}, {one}))")
        lines += [f"{other} = opaque(select(later, {one}, {other}))", f"{one} = lesser"]
    return lines
