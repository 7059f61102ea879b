"""The functions in the disk cache, and the kernels of each.

A kernel that calls others, and that no other one calls, is the main function of a program. It bears the name of the
user's function. All kernels that it calls, directly or not, belong to it, and so do the recipes that call it.
"""

import re
import time
from typing import NamedTuple

from scanjit.runtime.cache import Cache, Files
from scanjit.walks import top_down

_NAME = re.compile(r"(?P<name>\w+?)(_[0-9a-f]{12})?_[0-9a-f]{20}")
"""A stem. The digest of the content is cut off if the name of a function is very long."""


class Row(NamedTuple):
    """The cached kernels of all functions of one name.

    Attributes
    ----------
    name : the name, as far as it can be part of a file's name.
    programs : how many programs there are. A function that was changed, or compiled for another machine, has several.
    kernels, size : the number of their kernels, and the bytes of these and their recipes. Functions may share some.
    made, used : when the first kernel was written, and when one was last used (in seconds since 1970).
    """

    name: str
    programs: int
    kernels: int
    size: int
    made: float
    used: float


class Inventory(NamedTuple):
    """The functions in a cache, the last used ones first; how many kernels belong to none of them, because their main
    function was deleted; and how many entries cannot be used, recipes included. An entry cannot be used if there is
    only the source, because compiling did not end, or if the object code is damaged or belongs to another user."""

    rows: list[Row]
    others: int
    useless: int


def inventory(cache: Cache) -> Inventory:
    """The inventory of a cache now. No entry counts as used by that."""
    kept = {stem: entry for stem, entry in cache.entries().items() if entry.is_kernel or entry.is_recipe}
    found = {stem: entry.metadata for stem in kept if (entry := cache.peek(stem)) is not None}
    stems = {metadata.get("symbol"): stem for stem, metadata in found.items()}
    calls = {
        stem: [stems[symbol] for symbol in metadata.get("undefined", ()) if symbol in stems]
        for stem, metadata in found.items()
    }
    called = {callee for callees in calls.values() for callee in callees}
    programs: dict[str, list[set[str]]] = {}
    for stem, callees in calls.items():
        if callees and stem not in called and (match := _NAME.fullmatch(stem)):
            programs.setdefault(match["name"], []).append(set(top_down([stem], calls.__getitem__)))
    recipes: set[str] = set()
    for stem in kept:
        entry = cache.peek(stem, "recipe")
        parts = [] if entry is None else entry.metadata.get("kernels", [])
        if parts and found.keys() >= set(parts):
            recipes.add(stem)
            for program in (each for many in programs.values() for each in many if parts[-1] in each):
                program.add(stem)
    rows = [_row(name, [kept[stem] for stem in set().union(*many)], len(many)) for name, many in programs.items()]
    belong = {stem for many in programs.values() for each in many for stem in each}
    useless = kept.keys() - found.keys() - recipes
    return Inventory(sorted(rows, key=lambda row: -row.used), len(found.keys() - belong), len(useless))


def _row(name: str, entries: list[Files], programs: int) -> Row:
    size = sum(files.size for files in entries)
    made, used = min(files.made for files in entries), max(files.used for files in entries)
    return Row(name, programs, sum(files.is_kernel for files in entries), size, made, used)


def age(then: float) -> str:
    """How long ago something was, in words.

    Examples
    --------
    >>> age(time.time() - 7000), age(time.time())
    ('1 hour ago', 'now')
    """
    seconds = time.time() - then
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if (many := int(seconds // length)) > 0:
            return f"{many} {unit}{'s' if many > 1 else ''} ago"
    return "now"
