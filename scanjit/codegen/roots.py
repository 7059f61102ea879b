"""What a Fourier transform needs if its length is known only when it runs, as Python source: the length of its passes,
their factors, and the table of roots of unity (see `scanjit.ops.passes`).

Variables of the generated code: `h` is the length of the transform of complex numbers, which for real numbers may be
half of their number; `m` is the length of the passes, which is another one if the transform is a convolution.
"""

from scanjit.codegen.lines import LOOK, indented
from scanjit.codegen.names import suffix
from scanjit.codegen.source import Parameters, Source
from scanjit.ops.passes import FOUND, LARGEST_FACTOR
from scanjit.schedule.nests import RootsOfUnity
from scanjit.target import Target


def roots_source(job: RootsOfUnity, target: Target) -> Source:
    """The source of a function that fills a table for rows of a length that is known only when it runs."""
    parameters = Parameters()
    table, n = parameters.address(job.table.buffer, job.table.offset), parameters.number(job.length)
    dtype = job.table.buffer.dtype
    size, wide = dtype.itemsize, min(target.lanes(dtype.itemsize), 8)
    places, value = f"iota_i64x{wide}(first)", f"cast_{suffix(dtype, wide)}({{}}(angle))"

    def row(count: str, turns: str, whole: str) -> list[str]:
        """The roots for `turns`, of which each is one part of `whole`."""
        return [
            f"for first in range(0, {count}, {wide}):",
            f"    angle = cast_f64x{wide}({turns}) / cast_f64x{wide}(splat_i64x{wide}({whole})) * 6.283185307179586",
            f"    mask = head_x{wide}({count} - first)",
            f"    store_masked(place + first*{size}, {value.format('cos')}, mask)",
            f"    store_masked(place + ({count})*{size} + first*{size}, {value.format('sin')}, mask)",
            f"place += 2*({count})*{size}",
        ]

    lines = [*find_length(n, job.real), f"place = {table}"]
    if job.real:
        lines += [f"if h != {n}:", *indented(row("h + 1", places, n))]
    lines += [
        "if m != h:",
        *indented(row("h", f"mod({places}*{places}, splat_i64x{wide}(2*h))", "2*h")),
        "left = m",
        "done = 1",
        "while left > 1:",
        *indented(LOOK),
        *indented(choose_radix()),
        "    whole = radix*done",
        "    if done > 1:",
        "        for j in range(1, radix):",
        *indented(row("done", f"{places}*j", "whole"), 3),
        f"    if radix > {max(FOUND)}:",
        *indented(row("radix", f"{places}*done", "whole"), 2),
        "    left = left // radix",
        "    done = whole",
    ]
    return parameters.source(job.title, indented(lines), ["line"])


def find_length(n: str, real: bool) -> list[str]:
    """Find `h`, the length of the transform of n numbers; and `m`, which is h, or the length of a convolution if a
    factor of h is a large prime.

    The latter is the first multiple of 4 from 2 h - 1 on whose factors are all small.
    """
    return [
        f"h = {n}",
        *([f"if {n} % 2 == 0:", f"    h = {n} // 2"] if real else []),
        "m = h",
        "left = h",
        "while left > 1:",
        *indented(choose_radix()),
        f"    if radix > {LARGEST_FACTOR}:",
        "        m = 0",
        "    left = left // radix",
        "if m < h:",
        "    m = (2*h + 2)//4*4 - 4",
        "    left = 0",
        "    while left != 1:",
        "        m = m + 4",
        "        left = m",
        *(
            line
            for radix in FOUND
            for line in (f"        while left % {radix} == 0:", f"            left = left // {radix}")
        ),
    ]


def choose_radix() -> list[str]:
    """Find the next factor of `left`."""
    lines, word = [], "if"
    for radix in FOUND:
        lines += [f"{word} left % {radix} == 0:", f"    radix = {radix}"]
        word = "elif"
    return [
        *lines,
        "else:",
        "    radix = 7",
        "    while radix*radix <= left and left % radix != 0:",
        "        radix += 2",
        "    if radix*radix > left:",
        "        radix = left",
    ]
