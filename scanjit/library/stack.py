"""How much stack machine code needs at most, read from its assembly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

_LABEL = re.compile(r'^(?:"([^"]+)"|([A-Za-z_$][\w$.]*)):')
_CALL = re.compile(r'^\s+(?:callq?|bl|jal|call|jmp|b|tail)\s+(?:"([^"]+)"|([A-Za-z_$][\w$.]*))')
_TAKEN = (
    re.compile(r"^\s+subq\s+\$(\d+), %rsp"),
    re.compile(r"^\s+sub(?:\.w|w)?\s+(?:sp|x9), (?:sp, )?#(\d+)(?:, lsl #(12))?"),
    re.compile(r"^\s+addi\s+sp, sp, -(\d+)"),
    re.compile(r"^\s+st[pr]\s+.*\[sp, #-(\d+)\]!"),
)
_CONSTANT = re.compile(r"^\s+(?:movl\s+\$(\d+), %(\w+)|lui\s+(\w+), (\d+)|addiw?\s+(\w+), \w+, (-?\d+))")
_BY_REGISTER = re.compile(r"^\s+(?:subq\s+%(\w+), %rsp|sub\s+sp, sp, (\w+))")
"""A large frame is subtracted from a register that an earlier instruction filled."""
_WORDS = re.compile(r"^\s+(v?push)(?:\.w)?\s+\{([^}]*)\}")


def worst_stack(text: str, begins: list[str]) -> int | None:
    """The most bytes of stack that one of some functions needs, with all functions that it calls in the same text. None
    if no instruction takes stack, as in WebAssembly, whose engine has a stack of its own.

    Parameters
    ----------
    text : the assembly, as LLVM writes it for x86-64, ARM and RISC-V.
    begins : the names of the functions.
    """
    frames: dict[str, int] = {}
    calls: dict[str, list[str]] = {}
    held: dict[str, int] = {}
    current = ""
    for line in text.splitlines():
        _hold(line, held)
        if found := _LABEL.match(line):
            current = (found[1] or found[2]).removeprefix("_")
        elif current:
            frames[current] = frames.get(current, 0) + _taken(line, held)
            if found := _CALL.match(line):
                calls.setdefault(current, []).append((found[1] or found[2]).removeprefix("_"))

    @cache
    def needed(name: str) -> int:
        return frames.get(name, 0) + max((needed(other) for other in calls.get(name, ()) if other != name), default=0)

    return max(map(needed, begins)) if any(frames.values()) else None


def _hold(line: str, held: dict[str, int]) -> None:
    """Store the number that an instruction puts into a register in `held`."""
    if found := _CONSTANT.match(line):
        number, register, high, pages, low, more = found.groups()
        if register:
            held[register.replace("eax", "rax")] = int(number)
        elif high:
            held[high] = int(pages) << 12
        elif low in held:
            held[low] += int(more)


def _taken(line: str, held: Mapping[str, int]) -> int:
    """The bytes that an instruction takes from the stack, if registers hold these numbers."""
    if re.match(r"^\s+pushq\s", line):
        return 8
    if re.match(r"^\s+andq\s+\$-\d+, %rsp", line):
        return 64
    for pattern in _TAKEN:
        if found := pattern.match(line):
            return int(found[1]) << (12 if found.re.groups > 1 and found[2] else 0)
    if found := _BY_REGISTER.match(line):
        return held.get(found[1] or found[2], 0)
    if found := _WORDS.match(line):
        return sum(_registers(each.strip(), 8 if found[1] == "vpush" else 4) for each in found[2].split(","))
    return 0


def _registers(text: str, size: int) -> int:
    """The bytes of a register, `r4`, or of several ones, `d8-d11`, with `size` bytes each."""
    first, _, last = text.partition("-")
    return size * (int(last[1:]) - int(first[1:]) + 1 if last else 1)
