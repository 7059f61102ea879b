"""The targets of a library, from the argument `target` of `export_library`: one target, or several levels of x86-64."""

from __future__ import annotations

from collections.abc import Sequence

from scanjit import errors
from scanjit.runtime import host
from scanjit.target import LEVELS, NAMES, Target, target_named


def targets_of(given: str | Target | Sequence[str]) -> dict[str, Target]:
    """Targets by their labels, the suffixes of the names of their functions. A single target has the label "";
    levels of x86-64 have "v2" to "v4", in this order.

    Examples
    --------
    >>> sorted(targets_of(["x86-64-v3", "x86-64-v2"]))
    ['v2', 'v3']
    """
    if not isinstance(given, list | tuple):
        return {"": _target(given)}
    found = {_level(name): _target(name) for name in given}
    if not found or len({target.triple for target in found.values()}) > 1:
        raise errors.ArgumentError(
            "several targets of one library must be levels of x86-64 for one system",
            got=repr(given),
            expected='as ["x86-64-v2", "x86-64-v3"]',
            where="",
        )
    return dict(sorted(found.items()))


def _level(name: object) -> str:
    level = name.rpartition("-")[2] if isinstance(name, str) else ""
    if level not in LEVELS:
        raise errors.ArgumentError(
            "each of several targets must be a level of x86-64", got=repr(name), expected='"x86-64-v2"', where=""
        )
    return level


def _target(given: object) -> Target:
    if isinstance(given, Target):
        return given
    if given == "host":
        return host.target()
    system = "windows" if "windows" in host.TRIPLE else "macos" if "apple" in host.TRIPLE else "linux"
    found = target_named(given, system) if isinstance(given, str) else None
    if found is None:
        raise errors.ArgumentError(
            "the target is unknown",
            got=repr(given),
            expected=f'"host", {", ".join(map(repr, NAMES))}, or a target of scanjit.target.target_for',
            where="",
        )
    return found
