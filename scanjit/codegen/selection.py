"""Leaving out most words of one long row, of which only some entries of the sorted row are wanted, as Python source.

First, a sample of the words is sorted. It says between which two words those of the ranks lie, very probably. Only the
words between them are kept, and those before them counted. This is repeated as long as it leaves fewer words.

Of these, `codegen.quicksort` sorts what it must.
"""

from collections.abc import Callable

from scanjit.codegen.lines import filled
from scanjit.codegen.stretches import vectors
from scanjit.codegen.words import Words

SAMPLE = 128
"""So many words are a sample."""
MARGIN = 20
"""How far a rank in the sample may be off: three and a half times what chance makes of it."""
MANY = 1024
"""More words than these are sampled."""


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
sample = stack($room)
while going:
    stride = remaining//$sample
    for i in range(0, $sample, $lanes):
        if fresh:
            $drawn
        else:
            word = load_strided_$name(words + i*stride*$size, stride*$size, head_x$lanes($lanes))
        store(sample + i*$size, word)
    low = lowest*$sample//remaining - $margin
    high = highest*$sample//remaining + $above
    lower = splat_$name($least)
    upper = splat_$name($least)
    for i in range(0, $sample, $lanes):
        word = load_$name(sample + i*$size)
        smaller = splat_$name(0)
        for j in range(min(remaining//stride, $sample)):
            smaller = select(broadcast_$name(sample + j*$size) < word, smaller + 1, smaller)
        lower = maximum(lower, select(smaller <= low, word, lower))
        upper = maximum(upper, select(smaller <= high, word, upper))
    lower = splat_$name(reduce_max(lower))
    upper = splat_$name(reduce_max(upper))
    if high >= $sample:
        upper = splat_$name($most)
    below = 0
    at = 0
    if fresh:
        $from_row
    else:
        $from_words
    fresh = lowest < below or highest >= below + at
    going = not fresh and at > $many and 2*at < remaining
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
"""Entry k of the sorted sample is the largest word that has at most k words of the sample below it. The range over the
sample says `min`, which changes nothing, because LLVM would unroll a loop with a known number of turns."""


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
        load, more = (f"load_masked_{name}", f", {inside}") if inside else (f"load_{name}", "")
        return [f"{each} = {load}({each}s + i*{size}{more})" for each in words.names]

    def kept(reading: Callable[[str], list[str]]) -> list[str]:
        def part(inside: str) -> list[str]:
            more = f" & {inside}" if inside else ""
            moved = [f"store({each}s + at*{size}, compress({each}, chosen))" for each in words.names]
            lines = [f"below += count_lanes((word < lower){more})", f"chosen = (word >= lower) & (word <= upper){more}"]
            return [*reading(inside), *lines, *moved, "at += count_lanes(chosen)"]

        return vectors("remaining", part, lanes)

    return filled(
        _NARROWED,
        **{"n": n, "name": name, "size": size, "lanes": lanes, "many": MANY, "room": SAMPLE * size},
        **{"sample": SAMPLE, "margin": MARGIN, "above": MARGIN + 1, "least": -words.most - 1, "most": words.most},
        **{"drawn": drawn, "from_row": kept(read), "from_words": kept(again), "row": row},
    )
