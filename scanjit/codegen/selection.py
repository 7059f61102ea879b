"""Leaving out most words of one long row, of which only some entries of the sorted row are wanted, as Python source.

First, a sample of the words is sorted. It says between which two words those of the ranks lie, very probably. Only the
words between them are kept, and those before them counted. This is repeated as long as it leaves fewer words, and many.

Of these, `codegen.quicksort` sorts what it must.
"""

from collections.abc import Callable

from scanjit.codegen.lines import filled, loaded, vectors
from scanjit.codegen.network import along, block
from scanjit.codegen.words import Words
from scanjit.schedule.nests import ALONG, SORTED

SAMPLES = 32, 128
"""So many words are a sample: of at most `LONG` words, and of more."""
LONG = 1024
"""See `SAMPLES`."""
MARGINS = 10, 20
"""How far a rank in the sample may be off: three and a half times what chance makes of it in the middle of the sample.
Chance makes three fifths of it in the first and the last eighth."""


_NARROWED = """
lowest = load_i64(asked + since*8)
highest = lowest
for j in range(since + 1, till):
    lowest = min(lowest, load_i64(asked + j*8))
    highest = max(highest, load_i64(asked + j*8))
remaining = $n
dropped = 0
fresh = True
going = remaining > $many
sample_words = stack($room)
while going:
    drawn = $brief
    margin = $less
    if remaining > $long:
        drawn = $sample
        margin = $margin
    stride = remaining//drawn
    for i in range(0, drawn, $lanes):
        if fresh:
            $drawing
        else:
            word = load_strided_$name(words + i*stride*$size, stride*$size, head_x$lanes($lanes))
        store(sample_words + i*$size, word)
    $sorting
    low = lowest*drawn//remaining
    high = highest*drawn//remaining + 1
    if 8*min(low, drawn - low) < drawn:
        low -= margin*3//5
    else:
        low -= margin
    if 8*min(high, drawn - high) < drawn:
        high += margin*3//5
    else:
        high += margin
    lower = broadcast_$name(sample_words + max(low, 0)*$size)
    upper = broadcast_$name(sample_words + min(high, drawn - 1)*$size)
    if low < 0:
        lower = splat_$name($least)
    if high >= drawn:
        upper = splat_$name($most)
    below = 0
    at = 0
    if fresh:
        $from_row
    else:
        $from_words
    fresh = lowest < below or highest >= below + at
    going = not fresh and at > $again and 2*at < remaining
    remaining = at
    lowest -= below
    highest -= below
    dropped += below
if fresh:
    remaining = $n
    $row
else:
    for j in range(since, till):
        store_i64(asked + j*8, load_i64(asked + j*8) - dropped)
"""


def narrowed(
    words: Words, lanes: int, n: str, drawn: list[str], read: Callable[[str], list[str]], row: list[str]
) -> list[str]:
    """Put `remaining` of the words of a row at the address `words`, and replace the ranks number `since` to `till` at
    the address `asked` by ranks among these. All `n` words are kept if there are few, or if the sample misled.

    `drawn` are lines that read a vector of the row from element `i*stride` on, each `stride` elements behind the one
    before; `read` gives lines that read one from element `i` on, in the lanes of a mask; `row` makes all words.
    """
    name, size = f"{words.kept.name}x{lanes}", words.size

    def again(inside: str) -> list[str]:
        return [f"{each} = {loaded(name, f'{each}s + i*{size}', inside)}" for each in words.names]

    def kept(reading: Callable[[str], list[str]]) -> list[str]:
        def part(inside: str) -> list[str]:
            more = f" & {inside}" if inside else ""
            moved = [f"store({each}s + at*{size}, compress({each}, chosen))" for each in words.names]
            lines = [f"below += count_lanes((word < lower){more})", f"chosen = (word >= lower) & (word <= upper){more}"]
            return [*reading(inside), *lines, *moved, "at += count_lanes(chosen)"]

        return vectors("remaining", part, lanes)

    alone = Words(words.kept.dtype, False, False)
    return filled(
        _NARROWED,
        **{"n": n, "name": name, "size": size, "lanes": lanes, "many": SORTED, "again": ALONG, "long": LONG},
        **{"brief": SAMPLES[0], "sample": SAMPLES[1], "less": MARGINS[0], "margin": MARGINS[1]},
        **{"room": SAMPLES[1] * size, "least": -words.most - 1, "most": words.most, "drawing": drawn, "row": row},
        **{"from_row": kept(read), "from_words": kept(again)},
        sorting=along(alone, lanes, "drawn", block(alone, lanes, SAMPLES[0]), "sample_"),
    )
