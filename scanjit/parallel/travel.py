"""Kernels that travel: workers whose processors have the same features need not compile what this process has.

Files of the disk cache travel, as bytes. Each file holds a digest of its content. Its name covers the source, version
and processor that it was made for. A worker keeps a file if it is whole and was made for its machine; it unpickles
nothing. It trusts this machine code as it trusts the cluster, whose members may send it any function to run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from scanjit.runtime import cache, host
from scanjit.runtime.undisturbed import undisturbed

MOST_BYTES = 32 * 1024**2
"""At most this many bytes travel, the last used entries first."""
_SOURCE = "py"


class Name(NamedTuple):
    """The name of an entry of the cache: the name of its files, and its kind."""

    stem: str
    kind: str


def machine() -> str:
    """A digest of everything that decides which object code a machine can run: its processor, the generator and
    LLVM."""
    return cache.version(host.target())


def used() -> list[Name]:
    """The entries that this process has used of its cache, the newest first."""
    return [Name(*name) for name in reversed(cache.default().used)]


def lacking(made_for: str, names: Iterable[Name]) -> list[Name]:
    """Those of these entries that this process could use, and does not have."""
    if made_for != machine():
        return []
    store = cache.default()
    return [name for name in names if not store.has(*name)]


def packed(names: Collection[Name]) -> list[tuple[Name, bytes]]:
    """The contents of entries, and of the sources of kernels."""
    return list(_limited(_contents(names)))


def _contents(names: Iterable[Name]) -> Iterator[tuple[Name, bytes]]:
    store = cache.default()
    for name in names:
        entry, text = store.peek(*name), store.text(name.stem)
        if entry is not None:
            yield name, cache.encode(entry)
            if text is not None:
                yield Name(name.stem, _SOURCE), text.encode()


def _limited(contents: Iterable[tuple[Name, bytes]]) -> Iterator[tuple[Name, bytes]]:
    total = 0
    for name, data in contents:
        total += len(data)
        if total > MOST_BYTES:
            return
        yield name, data


def unpack(made_for: str, contents: Iterable[tuple[Name, bytes]]) -> int:
    """Put entries into the cache of this process, if they were made for this machine. Returns how many were new."""
    if made_for != machine():
        return 0
    return undisturbed(lambda abandoned: sum(_kept(Name(*name), data) for name, data in contents))


def _kept(name: Name, data: bytes) -> bool:
    store = cache.default()
    if not cache.is_name(*name) or store.has(*name):
        return False
    if name.kind == _SOURCE:  # whose digest is part of its name: who uses it looks
        return store.source(name.stem, data.decode()) is not None
    entry = cache.decode(data)
    return entry is not None and store.store(name.stem, entry, name.kind)
