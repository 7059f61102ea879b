"""The machine code that keeps the memory of arrays that are no more. `spare` says what it is for.

A block is taken if it is at most an eighth too large. If the system has no memory left, all blocks are given back
before it is asked again. A thread that finds another busy does not wait: it asks NumPy's functions.
"""

import ctypes

from scanjit.runtime.structures import MOST_BLOCKS, HeaderFields

MOST_BYTES = 1 << 27
"""So many bytes are spare at most."""
_PAGE, _APART = 4096, 1024
"""Blocks begin so many bytes apart within pages, in turns. Processors compare the last 12 bits of addresses: where a
loop reads 64 bytes behind what it stores, by these bits, it takes 1.3 times as long."""
_ROOM = 2 * _PAGE
"""So much more memory is asked for than a block holds: its start is moved, and its header lies before it."""

SPARE_NUMBERS = {
    "MOST_BYTES": MOST_BYTES,
    "MOST_BLOCKS": MOST_BLOCKS,
    "HEADER": ctypes.sizeof(HeaderFields),
    "ROOM": _ROOM,
    "PAGE": _PAGE,
    "APART": _APART,
}
SPARE_SOURCE = """
def new_block(spare, size):
    memory = spare.take(spare.context, size + ROOM)
    if memory == 0:
        return 0
    spare.turn = (spare.turn + APART) % PAGE
    block = ((memory + HEADER + PAGE) & -PAGE) + spare.turn
    header = block - HEADER
    header.memory = memory
    header.size = size
    return block


def given_back(spare, block):
    header = block - HEADER
    spare.give(spare.context, header.memory, header.size + ROOM)


# ---- while this thread is busy with the blocks: take one of them, make room


def picked(spare, number):
    place = spare.blocks + 8*number
    block = place[0]
    spare.count = spare.count - 1
    memmove(place, place + 8, 8*(spare.count - number))
    header = block - HEADER
    spare.bytes = spare.bytes - header.size
    return block


def shrink(spare, most_bytes, most_blocks):
    while spare.bytes > most_bytes or spare.count > most_blocks:
        given_back(spare, picked(spare, 0))


# ---- what NumPy calls


def scanjit_take(spare, size):
    if not change(spare.busy, 0, 1):
        return new_block(spare, size)
    block = 0
    number = spare.count
    while number > 0 and block == 0:
        number -= 1
        header = spare.blocks[number] - HEADER
        if size <= header.size <= size + (size >> 3):
            block = picked(spare, number)
    if block == 0:
        block = new_block(spare, size)
    if block == 0:
        shrink(spare, 0, 0)
        block = new_block(spare, size)
    put(spare.busy, 0)
    return block


def scanjit_give(spare, block, nbytes):
    if block == 0:
        return 0
    header = block - HEADER
    if header.size > MOST_BYTES or not change(spare.busy, 0, 1):
        return given_back(spare, block)
    shrink(spare, MOST_BYTES - header.size, MOST_BLOCKS - 1)
    spare.blocks[spare.count] = block
    spare.count = spare.count + 1
    spare.bytes = spare.bytes + header.size
    put(spare.busy, 0)


def scanjit_zeros(spare, count, each):
    block = scanjit_take(spare, count*each)
    if block:
        memset(block, 0, count*each)
    return block


def scanjit_resize(spare, block, size):
    new = scanjit_take(spare, size)
    if new:
        header = block - HEADER
        memcpy(new, block, min(header.size, size))
        scanjit_give(spare, block, size)
    return new
"""
