"""What a Fourier transform needs if its length is known only when it runs, as Python source: the length of its passes,
their factors, and the table of roots of unity (see `scanjit.ops.passes`).

Variables of the generated code: `h` is the length of the transform of complex numbers, which for real numbers may be
half of their number; `m` is the length of the passes, which is another one if the transform is a convolution.
"""

from scanjit.codegen.lines import LOOK, filled, indented
from scanjit.codegen.names import suffix
from scanjit.codegen.source import Parameters, Source
from scanjit.ops.passes import FOUND, LARGEST_FACTOR
from scanjit.schedule.nests import RootsOfUnity
from scanjit.target import Target

_TABLE = """
$find_length
place = $table
steps = stack($room)
$of_reals
if m != h:
    $chirp
left = m // columns
done = 1
while done < m:
    $look
    radix = columns
    if left > 1:
        $choose_radix
        left = left // radix
    whole = radix*done
    for j in range(1, radix + radix % 2):
        count = done
        factor = j
        if j == radix:
            count = radix
            factor = done
        $powers
    done = whole
store(place, splat_$lanes(0.0))
"""
_ROW = """
for first in range(-$step, $count, $step):
    start = max(first, 0)
    step = $factor
    if first < 0:
        step = $wide*$factor
    $angles
    a = cos(angle)
    b = sin(angle)
    if first < 0:
        store(steps, a)
        store(steps + $behind, b)
    else:
        for k in range(min($wide, ($count - first + $last)//$wide)):
            c = broadcast_$vector(steps + k*8)
            d = broadcast_$vector(steps + k*8 + $behind)
            $stored
place += 2*($count)*$size
"""
_CHIRP = """
for first in range(0, h, $wide):
    $angles
    $stored
place += 2*h*$size
"""
_LENGTH = """
h = $n
$halved
m = h
radix = 1
left = h
while left > 1:
    $choose_radix
    if radix > $largest:
        m = 0
    left = left // radix
if m < h:
    m = (2*h - 2) // $unit * $unit
    left = 0
    while left != 1:
        m = m + $unit
        left = m
        $divided
columns = $lanes
if m % $lanes != 0:
    columns = radix
    if radix % 2 == 0:
        columns = 1
"""


def roots_source(job: RootsOfUnity, target: Target) -> Source:
    """The source of a function that fills a table for rows of a length that is known only when it runs."""
    parameters = Parameters()
    table, n = parameters.address(job.table.buffer, job.table.offset), parameters.number(job.length)
    dtype = job.table.buffer.dtype
    size, wide = dtype.itemsize, min(target.lanes(dtype.itemsize), 8)
    vector = f"f64x{wide}"

    def angles(turns: str, whole: str) -> str:
        return f"angle = cast_{vector}({turns}) / cast_{vector}(splat_i64x{wide}({whole})) * 6.283185307179586"

    def stored(count: str, first: str, *values: str) -> list[str]:
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
        return filled(
            _ROW,
            angles=angles(f"iota_i64x{wide}(start)*step", whole),
            stored=stored(count, f"first + k*{wide}", "a*c - b*d", "b*c + a*d"),
            **{"count": count, "factor": factor, "vector": vector, "wide": wide, "last": wide - 1, "behind": 8 * wide},
            **{"step": wide * wide, "size": size},
        )

    places = f"iota_i64x{wide}(first)"
    chirp = filled(  # the powers of the root of order 2h, of which each is the square of its place
        _CHIRP,
        angles=angles(f"mod({places}*{places}, splat_i64x{wide}(2*h))", "2*h"),
        stored=stored("h", "first", "cos(angle)", "sin(angle)"),
        **{"wide": wide, "size": size},
    )
    lines = filled(
        _TABLE,
        find_length=find_length(n, job.real, target.lanes(size)),
        of_reals=[f"if h != {n}:", *indented(row("h + 1", "1", n))] if job.real else [],
        choose_radix=choose_radix(),
        powers=row("count", "factor", "whole"),
        **{"table": table, "room": 2 * 8 * wide, "chirp": chirp, "look": LOOK},
        lanes=suffix(dtype, target.lanes(size)),
    )
    return parameters.source(job.title, indented(lines), ["line"])


def find_length(n: str, real: bool, lanes: int) -> list[str]:
    """Find `h`, the length of the transform of n numbers; `m`, which is h, or the length of a convolution if a factor
    of h is a large prime; and `columns`, the factor of m that is the last one.

    The length of a convolution fills vectors: it is the first such number from 2 h - 1 on whose factors are all small.
    The last factor is a vector's number of lanes if m fills vectors, else the largest odd prime.
    """
    divided = [(f"while left % {radix} == 0:", f"    left = left // {radix}") for radix in (2, 3, 5)]
    return filled(
        _LENGTH,
        halved=[f"if {n} % 2 == 0:", f"    h = {n} // 2"] if real else [],
        divided=[line for pair in divided for line in pair],
        **{"n": n, "choose_radix": choose_radix(), "largest": LARGEST_FACTOR},
        **{"unit": max(lanes, 4), "lanes": lanes},
    )


def choose_radix() -> list[str]:
    """Find the next factor of `left`."""
    lines, word = [], "if"
    for radix in FOUND:
        even = " and left % 32 != 16" if radix == 8 else ""  # 16 is 4 times 4
        lines += [f"{word} left % {radix} == 0{even}:", f"    radix = {radix}"]
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
