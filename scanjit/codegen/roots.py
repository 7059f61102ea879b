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
    vector, step = f"f64x{wide}", wide * wide

    def angles(turns: str, whole: str) -> str:
        return f"angle = cast_{vector}({turns}) / cast_{vector}(splat_i64x{wide}({whole})) * 6.283185307179586"

    def stored(count: str, first: str, values: tuple[str, str]) -> list[str]:
        """Store a vector of powers from the place `first` on: the real parts, then the imaginary parts."""
        real, imaginary = (f"cast_{suffix(dtype, wide)}({value})" for value in values)
        return [
            f"mask = head_x{wide}({count} - ({first}))",
            f"store_masked(place + ({first})*{size}, {real}, mask)",
            f"store_masked(place + ({count})*{size} + ({first})*{size}, {imaginary}, mask)",
        ]

    def row(count: str, factor: str, whole: str) -> list[str]:
        """The powers of a root: `factor` times the place of each, of the root of order `whole`. Some vectors are
        computed, and multiplied by powers for the places behind them."""
        powers = (f"broadcast_{vector}(steps + k*8)", f"broadcast_{vector}(steps + k*8 + {8 * wide})")
        return [
            angles(f"iota_i64x{wide}(0)*({wide}*{factor})", whole),
            "store(steps, cos(angle))",
            f"store(steps + {8 * wide}, sin(angle))",
            f"for first in range(0, {count}, {step}):",
            f"    {angles(f'iota_i64x{wide}(first)*{factor}', whole)}",
            "    a = cos(angle)",
            "    b = sin(angle)",
            f"    for k in range(min({wide}, ({count} - first + {wide - 1})//{wide})):",
            f"        c = {powers[0]}",
            f"        d = {powers[1]}",
            *indented(stored(count, f"first + k*{wide}", ("a*c - b*d", "b*c + a*d")), 2),
            f"place += 2*({count})*{size}",
        ]

    def chirp() -> list[str]:
        """The powers of the root of order 2h, of which each is the square of its place."""
        places = f"iota_i64x{wide}(first)"
        return [
            f"for first in range(0, h, {wide}):",
            f"    {angles(f'mod({places}*{places}, splat_i64x{wide}(2*h))', '2*h')}",
            *indented(stored("h", "first", ("cos(angle)", "sin(angle)"))),
            f"place += 2*h*{size}",
        ]

    lines = [*find_length(n, job.real), f"place = {table}", f"steps = stack({2 * 8 * wide})"]
    if job.real:
        lines += [f"if h != {n}:", *indented(row("h + 1", "1", n))]
    lines += [
        "if m != h:",
        *indented(chirp()),
        "left = m",
        "done = 1",
        "while left > 1:",
        *indented(LOOK),
        *indented(choose_radix()),
        "    whole = radix*done",
        "    if done > 1:",
        "        for j in range(1, radix):",
        *indented(row("done", "j", "whole"), 3),
        f"    if radix > {max(FOUND)}:",
        *indented(row("radix", "done", "whole"), 2),
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
