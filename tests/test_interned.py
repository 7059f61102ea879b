"""Tables of objects that exist once."""

import gc
import threading

from scanjit.interned import Interned


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


def test_threads_get_one_object() -> None:
    table, found, start = Interned[int, Thing](), list[list[Thing]](), threading.Barrier(4)

    def ask() -> None:
        start.wait()
        found.append([table.known(i, Thing()) for i in range(2_000)])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(table) == 2_000
    assert all(len(set(map(id, same))) == 1 for same in zip(*found, strict=True))
