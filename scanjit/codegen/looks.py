"""Looks whether a call is to end (Ctrl-C, an error in another thread), in the loops of nests that may take long.

A look is a load from memory, so it may come often. But LLVM optimises a loop of few lines less if there is a look in
it. So nests of which threads share the outermost loop have looks only in loops over time: their callers compute them a
piece at a time (`jobs`). Products have looks, and so have nests that threads do not share.

A look may run a signal handler of the user's, which may call functions of its own. So there are no looks between lines
that set the sizes of registers for matrices and those that use them.
"""

import re
from typing import NamedTuple

from scanjit.codegen.scope import Scope
from scanjit.schedule.nests import Tile

STRETCH = 1 << 15
"""In a loop of few lines, about this many lines run between two looks."""
MANY = 512
"""A loop looks in each turn but the first if, by its text, this many lines may run in one turn."""


class Range(NamedTuple):
    """The head of a loop: its counter, and the text of its range."""

    name: str
    start: str
    stop: str
    step: str

    def turns(self) -> int | None:
        """The most turns there can be; None if the text does not say."""
        if not self.step.isdecimal():
            return None
        length = self.stop
        if self.start != "0":
            end = re.fullmatch(r"(?:min\()?(.+?) \+ (\d+)(?:, .*\))?", self.stop)
            length = end[2] if end is not None and end[1] == self.start else ""
            if self.start.isdecimal() and self.stop.isdecimal():
                length = str(max(int(self.stop) - int(self.start), 0))
        return -(-int(length) // int(self.step)) if length.isdecimal() else None


def looking(function: Scope, tile: Tile) -> bool:
    """Write looks into the loops of a function that has a parameter `line`. Returns whether it has any."""
    writer = _Looks(shared=tile.split is not None and tile.rows is None)
    writer.lines_of(function)
    return writer.count > 0


class _Lines(NamedTuple):
    """About how many lines run between two looks, and whether all are counted, so that no loop of unknown length is
    among them."""

    number: int
    known: bool


class _Looks:
    """Writes looks into scopes, from the inside out. `count` is the number of loops that look. If the nest is `shared`,
    few do. None do behind a line of the same loop that has set sizes (`sizes_set`)."""

    def __init__(self, shared: bool) -> None:
        self.shared, self.count, self.sizes_set = shared, 0, False
        self.around: list[Range] = []
        """The loops around the present scope, the outermost first."""

    def lines_of(self, scope: Scope, inside: bool = False) -> _Lines:
        """How many lines run in a scope, which may lie inside a loop of unknown length."""
        lines, known, before = 0, True, self.sizes_set
        for i, line in enumerate(scope.lines):
            if isinstance(line, str):
                lines += 1
                self.sizes_set |= line.startswith("begin_matrices(")
                continue
            head = _head(line.header)
            if head is None:
                found = self.lines_of(line, inside)
            else:
                turns = head.turns() if line.most is None else line.most
                self.around.append(head)
                found = self.lines_of(line, inside or turns is None)
                self.around.pop()
                found = self._loop(scope, i, head, line, turns, found, inside)
            lines, known = lines + found.number, known and found.known
        if scope.header is not None:
            self.sizes_set = before
        return _Lines(max(lines, 1), known)

    def _loop(
        self, outer: Scope, place: int, head: Range, loop: Scope, turns: int | None, turn: _Lines, inside: bool
    ) -> _Lines:
        """How many lines run in a loop, which gets a look if it may take long."""
        if turns is not None and turns * turn.number <= STRETCH:
            return _Lines(turns * turn.number, turn.known)
        if self.sizes_set:
            return _Lines(STRETCH, False)
        if turn.known and turn.number >= MANY and not self.shared:
            loop.lines.insert(0, _look(f"{head.name} != {head.start} and {self._interrupted(loop, head.name)}"))
        elif turn.known and (loop.steps or not (inside or self.shared)) and head.step.isdecimal():
            outer.lines[place] = self._stretches(head, loop, 1 << (max(STRETCH // turn.number, 1).bit_length() - 1))
        elif loop.steps or not (turn.known or self.shared):
            loop.lines.insert(0, _look(self._interrupted(loop, head.name)))
        else:
            return _Lines(STRETCH, False)
        self.count += 1
        return _Lines(STRETCH, False)

    def _interrupted(self, loop: Scope, counter: str) -> str:
        """The call that tells whether to end. A loop over time also passes its step. If each element goes through all
        steps before the next one, it passes the number of the element and how many there are."""
        if not loop.steps:
            return "interrupted(line)"
        outer = next(((around.name, around.stop) for around in self.around), ("0", "0"))
        return f"interrupted_at(line, {counter}, {', '.join(outer)})"

    def _stretches(self, head: Range, loop: Scope, turns: int) -> Scope:
        """The loop as a loop over stretches, with a look before each stretch but the first."""
        length = turns * int(head.step)
        name = f"stretch{self.count}"
        around = Scope(f"for {name} in range({head.start}, {head.stop}, {length}):")
        around.add(_look(f"{name} != {head.start} and {self._interrupted(loop, name)}"))
        step = "" if head.step == "1" else f", {head.step}"
        loop.header = f"for {head.name} in range({name}, min({name} + {length}, {head.stop}){step}):"
        around.add(loop)
        around.ends = loop.ends
        return around


def _look(condition: str) -> Scope:
    test = Scope(f"if {condition}:")
    test.add("return")
    return test


def _head(header: str | None) -> Range | None:
    """The head of a loop; None for other scopes."""
    found = re.fullmatch(r"for (\w+) in range\((.*)\):", header or "")
    if found is None:
        return None
    parts, depth = [""], 0
    for letter in found[2]:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    parts = [part.strip() for part in parts]
    start, stop, step = (["0", *parts] if len(parts) == 1 else parts) + ["1"] * (3 - max(len(parts), 2))
    return Range(found[1], start, stop, step)
