"""Tables of objects that exist once."""

import gc
import itertools

import pytest

from scanjit.interned import Interned
from tests.at_once import at_once


class Thing:
    def __init__(self) -> None:
        self.other: Thing | None = None


def test_an_object_exists_once_while_somebody_holds_it() -> None:
    table = Interned[int, Thing]()
    first = table.known(1, Thing())
    assert table.known(1, Thing()) is first is table.get(1)
    assert table.known(2, Thing()) is not first
    assert len(table) == 1  # nobody holds the second
    del first
    assert table.get(1) is None
    assert not len(table)


def test_what_comes_after_a_lost_object_is_not_forgotten_with_it() -> None:
    table = Interned[int, Thing]()
    lost = table.known(1, Thing())
    lost.other = lost  # it stays until the collector comes
    del lost
    gc.collect()
    new = table.known(1, Thing())
    gc.collect()
    assert table.get(1) is new


@pytest.mark.parametrize("moment", [1, 2])
def test_what_another_thread_adds_while_an_object_is_forgotten_stays(moment: int) -> None:
    """The other thread comes when the table looks for the key: the first time, or the second time if there is one."""
    table, added, looks = Interned["Key", Thing](), list[Thing](), itertools.count(1)

    class Key:
        other_thread = False

        def __hash__(self) -> int:
            if self.other_thread and next(looks) == moment:
                added.append(table.known(self, Thing()))
            return 1

    key = Key()
    lost = table.known(key, Thing())
    key.other_thread = True
    del lost
    key.other_thread = False
    assert all(table.get(key) is thing for thing in added)


def test_threads_get_one_object() -> None:
    table = Interned[int, Thing]()
    found = at_once(4, lambda _: [table.known(i, Thing()) for i in range(2_000)])
    assert len(table) == 2_000
    assert all(len(set(map(id, same))) == 1 for same in zip(*found, strict=True))
