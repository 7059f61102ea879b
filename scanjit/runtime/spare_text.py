"""The machine code that keeps the memory of arrays that are no more, as text for LLVM. `spare` says what it is for."""

import re

from scanjit.runtime.machine_text import expanded

MOST_BYTES = 1 << 27
"""So many bytes are spare at most."""
MOST_BLOCKS = 16
"""So many blocks are spare at most."""
_PAGE, _APART = 4096, 1024
"""Blocks begin so many bytes apart within pages, in turns. Processors compare the last 12 bits of addresses: where a
loop reads 64 bytes behind what it stores, by these bits, it takes 1.3 times as long."""
_ROOM = 2 * _PAGE
"""So much more memory is asked for than a block holds: its start is moved, and its header lies before it."""

STRUCTS = {
    "spare": f"ptr context, ptr take, ptr give, i64 busy, i64 turn, i64 bytes, i64 count, [{MOST_BLOCKS} x ptr] blocks",
    "header": "ptr memory, i64 size",
}
"""What lies in memory. *spare* is all that is spare: NumPy's functions that `take` memory from the system and `give` it
back, and their `context`; whether a thread is `busy` with what follows; where in its page the last new block began (its
`turn`); how many `bytes` are spare, in how many blocks; and their addresses, the oldest first. A *header* is before
each block: where the `memory` begins that NumPy's function gave, and the `size` of the block."""

_TEXT = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.umin.i64(i64, i64)

define internal ptr @header(ptr %block) {
  %before = getelementptr %header, ptr %block, i64 -1
  ret ptr %before
}

define internal i64 @size(ptr %block) {
  %before = call ptr @header(ptr %block)
  %size = get header.size %before
  ret i64 %size
}

define internal ptr @asked(ptr %spare, i64 %size) {
  %take = get spare.take %spare
  %context = get spare.context %spare
  %all = add i64 %size, ROOM
  %memory = call ptr %take(ptr %context, i64 %all)
  %none = icmp eq ptr %memory, null
  br i1 %none, label %fail, label %place
place:
  %first = ptrtoint ptr %memory to i64
  %behind = add i64 %first, HEADER_BYTES
  %next = add i64 %behind, PAGE
  %page = and i64 %next, -PAGE
  %last_turn = get spare.turn %spare
  %sum = add i64 %last_turn, APART
  %turn = urem i64 %sum, PAGE
  set spare.turn %spare, %turn
  %start = add i64 %page, %turn
  %block = inttoptr i64 %start to ptr
  %before = call ptr @header(ptr %block)
  set header.memory %before, %memory
  set header.size %before, %size
  ret ptr %block
fail:
  ret ptr null
}

define internal void @returned(ptr %spare, ptr %block) {
  %give = get spare.give %spare
  %context = get spare.context %spare
  %before = call ptr @header(ptr %block)
  %memory = get header.memory %before
  %size = get header.size %before
  %all = add i64 %size, ROOM
  call void %give(ptr %context, ptr %memory, i64 %all)
  ret void
}

; ---- while this thread is busy with the blocks: take one of them, make room

define internal ptr @picked(ptr %spare, i64 %number) {
  %place = at spare.blocks %spare, i64 %number
  %block = load ptr, ptr %place
  %next = getelementptr ptr, ptr %place, i64 1
  %count = get spare.count %spare
  %less = sub i64 %count, 1
  %behind = sub i64 %less, %number
  %length = mul i64 %behind, 8
  call void @llvm.memmove.p0.p0.i64(ptr %place, ptr %next, i64 %length, i1 0)
  set spare.count %spare, %less
  %size = call i64 @size(ptr %block)
  %bytes = get spare.bytes %spare
  %left = sub i64 %bytes, %size
  set spare.bytes %spare, %left
  ret ptr %block
}

define internal void @shrink(ptr %spare, i64 %most_bytes, i64 %most_blocks) {
  br label %check
check:
  %bytes = get spare.bytes %spare
  %count = get spare.count %spare
  %heavy = icmp ugt i64 %bytes, %most_bytes
  %many = icmp ugt i64 %count, %most_blocks
  %more = or i1 %heavy, %many
  br i1 %more, label %one, label %done
one:
  %oldest = call ptr @picked(ptr %spare, i64 0)
  call void @returned(ptr %spare, ptr %oldest)
  br label %check
done:
  ret void
}

; ---- what NumPy calls

define ptr @scanjit_take(ptr %spare, i64 %size) {
  %mine = change acq_rel spare.busy %spare, 0 to 1
  br i1 %mine, label %search, label %new
search:
  %count = get spare.count %spare
  %eighth = lshr i64 %size, 3
  %most = add i64 %size, %eighth
  br label %look
look:
  %i = phi i64 [ %count, %search ], [ %number, %one ]
  %none = icmp eq i64 %i, 0
  br i1 %none, label %ask, label %one
one:
  %number = sub i64 %i, 1
  %place = at spare.blocks %spare, i64 %number
  %known = load ptr, ptr %place
  %has = call i64 @size(ptr %known)
  %enough = icmp uge i64 %has, %size
  %close = icmp ule i64 %has, %most
  %fits = and i1 %enough, %close
  br i1 %fits, label %found, label %look
found:
  %block = call ptr @picked(ptr %spare, i64 %number)
  set release spare.busy %spare, 0
  ret ptr %block
ask:
  %asked = call ptr @asked(ptr %spare, i64 %size)
  %full = icmp eq ptr %asked, null
  br i1 %full, label %clear, label %end
clear:
  call void @shrink(ptr %spare, i64 0, i64 0)
  %again = call ptr @asked(ptr %spare, i64 %size)
  br label %end
end:
  %made = phi ptr [ %asked, %ask ], [ %again, %clear ]
  set release spare.busy %spare, 0
  ret ptr %made
new:
  %other = call ptr @asked(ptr %spare, i64 %size)
  ret ptr %other
}

define void @scanjit_give(ptr %spare, ptr %block, i64 %nbytes) {
  %none = icmp eq ptr %block, null
  br i1 %none, label %done, label %measure
measure:
  %size = call i64 @size(ptr %block)
  %large = icmp ugt i64 %size, MOST_BYTES
  br i1 %large, label %away, label %try
try:
  %mine = change acq_rel spare.busy %spare, 0 to 1
  br i1 %mine, label %keep, label %away
keep:
  %room = sub i64 MOST_BYTES, %size
  call void @shrink(ptr %spare, i64 %room, i64 LAST_BLOCK)
  %count = get spare.count %spare
  %place = at spare.blocks %spare, i64 %count
  store ptr %block, ptr %place
  %more = add i64 %count, 1
  set spare.count %spare, %more
  %bytes = get spare.bytes %spare
  %sum = add i64 %bytes, %size
  set spare.bytes %spare, %sum
  set release spare.busy %spare, 0
  ret void
away:
  call void @returned(ptr %spare, ptr %block)
  br label %done
done:
  ret void
}

define ptr @scanjit_zeros(ptr %spare, i64 %count, i64 %each) {
  %size = mul i64 %count, %each
  %block = call ptr @scanjit_take(ptr %spare, i64 %size)
  %none = icmp eq ptr %block, null
  br i1 %none, label %done, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %block, i8 0, i64 %size, i1 0)
  br label %done
done:
  ret ptr %block
}

define ptr @scanjit_resize(ptr %spare, ptr %block, i64 %size) {
  %new = call ptr @scanjit_take(ptr %spare, i64 %size)
  %none = icmp eq ptr %new, null
  br i1 %none, label %done, label %copy
copy:
  %before = call i64 @size(ptr %block)
  %both = call i64 @llvm.umin.i64(i64 %before, i64 %size)
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %block, i64 %both, i1 0)
  call void @scanjit_give(ptr %spare, ptr %block, i64 %before)
  br label %done
done:
  ret ptr %new
}
"""
"""The functions. A block is taken if it is at most an eighth too large. If the system has no memory left, all blocks
are given back before it is asked again. A thread that finds another busy does not wait: it asks NumPy's functions."""


def spare_text() -> str:
    """The text; `native_text` declares what it calls."""
    numbers = {
        "MOST_BYTES": MOST_BYTES,
        "LAST_BLOCK": MOST_BLOCKS - 1,
        "HEADER_BYTES": 16,
        "ROOM": _ROOM,
        "PAGE": _PAGE,
        "APART": _APART,
    }
    text = re.sub("|".join(numbers), lambda match: str(numbers[match[0]]), _TEXT)
    return expanded(text, STRUCTS)
