"""Sorting networks as Python source: which words are compared does not depend on their values.

This is Batcher's merge exchange for any number of words (Knuth, The Art of Computer Programming, volume 3, algorithm
5.2.2M). Many rows are sorted side by side, one in each lane (`across`). A single row lies in consecutive words, of
which each vector is compared with the one at some distance (`along`): no word meets two others at a time.
"""

from collections.abc import Callable

from scanjit.codegen.lines import indented
from scanjit.codegen.words import Words


def across(words: Words, lanes: int, n: str) -> list[str]:
    """Sort `lanes` rows of `n` words. Vector i from the address `words` on has word i of each row (and from `places`
    on, their places)."""
    width = lanes * words.size
    compared = _compared(words, lanes, f"i*{width}", f"(i + d)*{width}", "")
    return _stages(n, lambda: _runs(n, [f"for i in range(run, min(run + p, {n} - d)):", *indented(compared)]))


def along(words: Words, lanes: int, n: str) -> list[str]:
    """Sort one row of `n` words. Behind them, up to a multiple of `lanes` and `lanes` words more, lies the largest
    word."""
    first, second = f"i*{words.size}", f"(i + d)*{words.size}"
    whole = [f"for i in range(run, min(run + p, {n} - d), {lanes}):"]
    whole += indented(_compared(words, lanes, first, second, ""))
    part = [f"chosen = (iota_i64x{lanes}(0) & p) == r", f"for i in range(0, {n} - d, {lanes}):"]
    part += indented(_compared(words, lanes, first, second, "chosen"))
    if lanes == 1:
        return _stages(n, lambda: _runs(n, whole))
    return _stages(n, lambda: [f"if p >= {lanes}:", *indented(_runs(n, whole)), "else:", *indented(part)])


def _stages(n: str, stage: Callable[[], list[str]]) -> list[str]:
    """All stages. In each, words i and i + d are compared if bit p of i is that of r."""
    return [
        "top = 1",
        f"while 2*top < {n}:",
        "    top = 2*top",
        "p = top",
        f"while p > 0 and {n} > 1:",
        "    q = top",
        "    r = 0",
        "    d = p",
        "    while d > 0:",
        *indented(stage(), 2),
        "        d = q - p",  # 0 after the last stage
        "        q = q >> 1",
        "        r = p",
        "    p = p >> 1",
    ]


def _runs(n: str, run: list[str]) -> list[str]:
    """The words of a stage, `p` neighbours at a time."""
    return ["run = r", f"while run < {n} - d:", *indented(run), "    run += 2*p"]


def _compared(words: Words, lanes: int, first: str, second: str, mask: str) -> list[str]:
    """Put the smaller words of two vectors into the first, in the lanes of a mask."""

    def put(name: str, at: str, value: str) -> str:
        return f"store_masked({name} + {at}, {value}, {mask})" if mask else f"store({name} + {at}, {value})"

    lines = [words.load(f"words + {first}", lanes, "a"), words.load(f"words + {second}", lanes, "b")]
    if not words.beside:
        return [*lines, put("words", first, "minimum(a, b)"), put("words", second, "maximum(a, b)")]
    lines += [words.load(f"places + {first}", lanes, "u"), words.load(f"places + {second}", lanes, "v")]
    lines += ["later = (b < a) | ((b == a) & (v < u))"]
    for name, at, one, other in (("words", first, "b", "a"), ("words", second, "a", "b")):
        lines.append(put(name, at, f"select(later, {one}, {other})"))
    for name, at, one, other in (("places", first, "v", "u"), ("places", second, "u", "v")):
        lines.append(put(name, at, f"select(later, {one}, {other})"))
    return lines
