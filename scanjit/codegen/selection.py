"""Finding some entries of one long sorted row without sorting it, as Python source.

First, a sample of the words is sorted. It says between which two words those of the ranks lie, very probably. Only the
words between them are kept, and those before them counted. This is repeated as long as it leaves fewer words.

Then the range of the words is cut into *buckets* of equal width, and the words in each are counted. So it is known in
which bucket the word of a rank lies. Only the words of these buckets are kept, in their order, and the rank becomes a
rank among them. This is repeated as long as it leaves fewer words or a narrower range. Then the rest is sorted. For
example, the median of a thousand words lies in one of 256 buckets, with perhaps five words.
"""

from collections.abc import Callable

from scanjit.codegen.lines import indented
from scanjit.codegen.network import along
from scanjit.codegen.radix import LONG, loaded, radix, stored, stretches, vectors
from scanjit.codegen.words import Words
from scanjit.schedule.nests import ALONG

SAMPLE = 128
"""So many words are a sample."""
MARGIN = 20
"""How far a rank in the sample may be off: three and a half times what chance makes of it."""
MANY = 1024
"""More words than these are sampled."""


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

    strided = f"word = load_strided_{name}(words + i*stride*{size}, stride*{size}, head_x{lanes}({lanes}))"
    sample = [
        "if fresh:",
        *indented(drawn),
        "else:",
        "    " + strided,
        f"store(sample + i*{size}, word)",
    ]
    once = [
        f"stride = remaining//{SAMPLE}",
        f"for i in range(0, {SAMPLE}, {lanes}):",
        *indented(sample),
        f"low = lowest*{SAMPLE}//remaining - {MARGIN}",
        f"high = highest*{SAMPLE}//remaining + {MARGIN + 1}",
        f"lower = splat_{name}({-words.most - 1})",
        f"upper = splat_{name}({-words.most - 1})",
        f"for i in range(0, {SAMPLE}, {lanes}):",  # entry k of the sorted sample is the largest with at most k below it
        f"    word = load_{name}(sample + i*{size})",
        f"    smaller = splat_{name}(0)",
        f"    for j in range(min(remaining//stride, {SAMPLE})):",  # never less; LLVM would unroll a known number
        f"        smaller = select(broadcast_{name}(sample + j*{size}) < word, smaller + 1, smaller)",
        "    lower = maximum(lower, select(smaller <= low, word, lower))",
        "    upper = maximum(upper, select(smaller <= high, word, upper))",
        f"lower = splat_{name}(reduce_max(lower))",
        f"upper = splat_{name}(reduce_max(upper))",
        f"if high >= {SAMPLE}:",
        f"    upper = splat_{name}({words.most})",
        "below = 0",
        "at = 0",
        "if fresh:",
        *indented(kept(read)),
        "else:",
        *indented(kept(again)),
        "fresh = lowest < below or highest >= below + at",
        f"going = not fresh and at > {MANY} and 2*at < remaining",
        "remaining = at",
        "lowest -= below",
        "highest -= below",
        "dropped += below",
    ]
    return [
        "lowest = load_i64(asked + since*8)",
        "highest = lowest",
        "for j in range(since + 1, till):",
        "    lowest = min(lowest, load_i64(asked + j*8))",
        "    highest = max(highest, load_i64(asked + j*8))",
        f"remaining = {n}",
        "dropped = 0",
        "fresh = True",
        f"going = remaining > {MANY}",
        f"sample = stack({SAMPLE * size})",
        "while going:",
        *indented(once),
        "if fresh:",
        f"    remaining = {n}",
        *indented(row),
        "else:",
        "    for j in range(since, till):",
        "        store_i64(asked + j*8, load_i64(asked + j*8) - dropped)",
    ]


def selection(words: Words, lanes: int, ranks: str) -> list[str]:
    """Reduce the `remaining` words at the address `words` to fewer words, which are sorted, and replace the ranks
    number `since` to `till` at the address `asked` by ranks among these. Behind all `ranks` there is room for as many
    numbers. Further memory is as for `radix`."""
    kept = ["remaining = left"]
    return [
        "mixed = True",
        f"going = remaining > {ALONG}",
        f"counts = stack({2048 * 8})",
        f"wanted = stack({2048 * 8})",
        "while going:",
        *indented(_buckets(words, lanes)),
        "    mixed = low < high",
        "    going = mixed",
        "    if mixed:",
        *indented([*_counted(words), *_found(ranks), *_packed(ranks), *_gathered(words, lanes), *kept], 2),
        "if mixed:",
        f"    if remaining <= {ALONG}:",
        *indented([*_filled_up(words, lanes), *along(words, lanes, "remaining")], 2),
        "    else:",
        *indented(radix(words, "remaining"), 2),
    ]


def _buckets(words: Words, lanes: int) -> list[str]:
    """Find the buckets: bucket b has the words whose upper bits, `word >> shift`, are `base + b`."""
    name, size = f"{words.kept.name}x{lanes}", words.size
    least, most = f"splat_{name}({-words.most - 1})", f"splat_{name}({words.most})"
    part = [
        f"inside = head_x{lanes}(remaining - i)",
        f"word = load_masked_{name}(words + i*{size}, inside)",
        f"least = minimum(least, select(inside, word, {most}))",
        f"most = maximum(most, select(inside, word, {least}))",
    ]
    return [
        f"least = {most}",
        f"most = {least}",
        *stretches("remaining", part, lanes),
        "low = lane_i64(reduce_min(least), 0)",
        "high = lane_i64(reduce_max(most), 0)",
        "bits = 8",
        f"if remaining > {LONG}:",
        "    bits = 11",
        f"shift = {8 * size} - bits",
        "while shift > 0 and (high >> (shift - 1)) - (low >> (shift - 1)) < (1 << bits):",
        "    shift -= 1",
        "base = low >> shift",
        "many = (high >> shift) - base + 1",
    ]


def _counted(words: Words) -> list[str]:
    """Count how many words lie in each bucket and those before it."""
    return [
        "for bucket in range(many):",
        "    store_i64(counts + bucket*8, 0)",
        "    store_i64(wanted + bucket*8, 0)",
        *stretches(
            "remaining",
            [
                f"slot = counts + (({loaded(words)} >> shift) - base)*8",
                "store_i64(slot, load_i64(slot) + 1)",
            ],
        ),
        "total = 0",
        "for bucket in range(many):",
        "    total += load_i64(counts + bucket*8)",
        "    store_i64(counts + bucket*8, total)",
    ]


def _found(ranks: str) -> list[str]:
    """Find the bucket of each rank, by bisection. The rank becomes a rank in its bucket."""
    return [
        "for j in range(since, till):",
        "    rank = load_i64(asked + j*8)",
        "    low = 0",
        "    high = many - 1",
        "    while low < high:",
        "        middle = (low + high) >> 1",
        "        if load_i64(counts + middle*8) > rank:",
        "            high = middle",
        "        else:",
        "            low = middle + 1",
        "    store_i64(wanted + low*8, 1)",
        f"    store_i64(asked + ({ranks} + j)*8, low)",
        "    if low > 0:",
        "        store_i64(asked + j*8, rank - load_i64(counts + (low - 1)*8))",
    ]


def _packed(ranks: str) -> list[str]:
    """Find the start of each wanted bucket once the others are left out, and whether to go on."""
    return [
        "left = 0",
        "before = 0",
        "lowest = many",
        "highest = 0",
        "for bucket in range(many):",
        "    after = load_i64(counts + bucket*8)",
        "    if load_i64(wanted + bucket*8) > 0:",
        "        store_i64(counts + bucket*8, left)",
        "        left += after - before",
        "        lowest = min(lowest, bucket)",
        "        highest = bucket",
        "    before = after",
        "for j in range(since, till):",
        f"    start = load_i64(counts + load_i64(asked + ({ranks} + j)*8)*8)",
        "    store_i64(asked + j*8, load_i64(asked + j*8) + start)",
        f"going = left > {ALONG} and (2*left < remaining or 4*(highest - lowest) < many)",
    ]


def _gathered(words: Words, lanes: int) -> list[str]:
    """Keep the words of wanted buckets, in their order. Vectors without such words are passed over."""
    name, size = f"{words.kept.name}x{lanes}", words.size
    keep = [f"number = {loaded(words, 'g')}", stored(words, f"words + at*{size}")]
    if words.beside:
        keep.append("store_i64(places + at*8, load_i64(places + g*8))")
    keep.append("at += load_i64(wanted + ((number >> shift) - base)*8)")
    part = [
        f"inside = head_x{lanes}(remaining - i)",
        f"word = load_masked_{name}(words + i*{size}, inside)",
        "if any_of((word >= lower) & (word <= upper) & inside):",
        f"    for g in range(i, min(i + {lanes}, remaining)):",
        *indented(keep, 2),
    ]
    return [
        f"lower = splat_{name}((base + lowest) << shift)",
        f"upper = splat_{name}(((base + highest) << shift) | ((1 << shift) - 1))",
        "at = 0",
        *stretches("remaining", part, lanes),
    ]


def _filled_up(words: Words, lanes: int) -> list[str]:
    """Put the largest word behind the others, as `along` needs it."""
    lines = [f"for i in range({2 * lanes}):"]
    for name, kind in (("words", words.kept.name), ("places", "i64"))[: len(words.names)]:
        lines.append(f"    store({name} + (remaining + i)*{words.size}, splat_{kind}x1({words.most}))")
    return lines
