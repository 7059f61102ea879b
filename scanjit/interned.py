"""Tables of objects that exist only once: equal keys give the same object, as long as somebody else holds it."""

import weakref
from _weakref import _remove_dead_weakref  # type: ignore[attr-defined]
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class _Reference(weakref.ref[Any]):
    """A weak reference that knows its key in the table."""

    __slots__ = ("key",)

    key: Any


class Interned(Generic[Key, Item]):
    """A table of objects that exist only once.

    A compilation looks up a hundred thousand objects in it, and drops most of those that it makes.
    `weakref.WeakValueDictionary` takes twice as long for the same.

    Examples
    --------
    >>> class Thing: pass
    >>> table: Interned[str, Thing] = Interned()
    >>> first = table.known("a", Thing())
    >>> table.get("a") is first, table.known("a", Thing()) is first
    (True, True)
    >>> del first
    >>> table.get("a") is None
    True
    """

    def __init__(self) -> None:
        self._references: dict[Key, _Reference] = {}
        references = self._references

        def forget(reference: _Reference) -> None:
            # Python alone would look and then delete: in between, another thread may put a new object there.
            _remove_dead_weakref(references, reference.key)

        self._forget = forget

    def get(self, key: Key) -> Item | None:
        """The object with a key; None if there is none."""
        found = self._references.get(key)
        return None if found is None else found()

    def known(self, key: Key, item: Item) -> Item:
        """The object with a key: from now on `item`, if there was none."""
        reference = _Reference(item, self._forget)
        reference.key = key
        first = self._references.setdefault(key, reference)
        while (found := first()) is None:  # what stood there is gone
            self._forget(first)
            first = self._references.setdefault(key, reference)
        known: Item = found
        return known

    def __len__(self) -> int:
        return len(self._references)
