"""Loops that are alike are changed once, and each keeps what is its own: its name, its location, what it reads."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from scanjit import types
from scanjit.ir import Node, new_input
from scanjit.loops import scan
from scanjit.ops.stretch import broadcast_to
from scanjit.rewrite import Note
from scanjit.rewrite.alike import Alike
from scanjit.rewrite.engine import map_scans
from scanjit.rewrite.loop import OpenScan
from scanjit.rewrite.scan_prune import prune
from scanjit.types import Type
from tests.rewrite.support import checked, fn, mm, scans, symbol, total

T, N = types.size("T"), 3


def recurrence(x: Node, w: Node, name: str | None = None) -> Node:
    return scan(lambda r, h: fn("tanh", r + h * w), [x], [fn("exp", w)], name=name)


class Counted:
    """A change of loops that counts its calls: each loop is put together again with a note about it."""

    def __init__(self) -> None:
        self.seen: list[Node] = []

    def __call__(self, node: Node, notes: list[Note]) -> Mapping[int, Node]:
        self.seen.append(node)
        notes.append(Note("counted", node.where, "a loop was changed"))
        loop = OpenScan.of(node)
        loop.substitute({out: fn("tanh", out) for out in loop.outputs})
        return loop.finish().parts()


def changed(outputs: list[Node]) -> tuple[list[Node], Counted, list[Note]]:
    change, notes = Counted(), []
    alike = Alike(change)
    return map_scans(outputs, lambda old, node: alike(node, notes)), change, notes


def test_loops_that_differ_in_what_they_read_are_changed_once() -> None:
    x, y = symbol("x", "T", N), symbol("y", "T", N)
    v, w = symbol("v", N), symbol("w", N)
    first = recurrence(x, v, "first")
    second = recurrence(y, w, "second")
    third = recurrence(fn("exp", second), w)  # reads another loop
    new, change, notes = changed([first, second, third])
    assert len(change.seen) == 1
    assert [node.name for node in scans(new)] == ["first", "second", None]
    assert [node.where for node in scans(new)] == [node.where for node in scans([first, second, third])]
    assert [note.where for note in notes] == [node.where for node in scans(new)]


def test_each_loop_keeps_its_line() -> None:
    x, w = symbol("x", "T", N), symbol("w", N)
    step = lambda r, h: fn("tanh", r + h)
    a = scan(step, [x], [w])
    b = scan(step, [fn("exp", x)], [w])
    new, change, notes = changed([a, b])
    lines = [int(node.where.rsplit(":", 1)[1]) for node in scans(new)]
    assert len(change.seen) == 1 and lines[1] == lines[0] + 1
    assert [note.where for note in notes] == [node.where for node in scans(new)]


@pytest.mark.parametrize(
    "other",
    [
        lambda x, w: recurrence(broadcast_to(w, (T, N)), w),  # a sequence that is the same in every step
        lambda x, w: recurrence(x, broadcast_to(symbol("s"), (N,))),
        lambda x, w: scan(lambda r, h: fn("tanh", r - h * w), [x], [fn("exp", w)]),
        lambda x, w: scan(lambda r, h: fn("tanh", r + h * w), [x], [w]),  # an operand twice
        lambda x, w: recurrence(fn("exp", symbol("z", "S", N)), w),  # as long as another size
        lambda x, w: recurrence(symbol("z", "T", N, dtype="float32"), symbol("u", N, dtype="float32")),
    ],
)
def test_loops_that_differ_in_more_are_not_alike(other: object) -> None:
    x, w = symbol("x", "T", N), symbol("w", N)
    new, change, _ = changed([recurrence(x, w), other(x, w)])  # type: ignore[operator]
    assert len(change.seen) == len(scans(new)) == 2


def test_what_else_a_change_depends_on_tells_loops_apart() -> None:
    x, y, w = symbol("x", "T", N), symbol("y", "T", N), symbol("w", N)
    step = lambda r, h, g: (fn("tanh", r + h), fn("exp", g) * r)
    (a, b), (c, _) = scan(step, [x], [w, w]), scan(step, [y], [w, w])
    outputs, _ = checked([a, b, c])
    assert sorted(len(node.types) for node in scans(outputs)) == [2, 4]
    outputs, _ = checked([a, c])
    assert len({node.params["body"] for node in scans(outputs)}) == 1


def test_loops_over_computed_sizes_are_changed_one_by_one() -> None:
    def row(k: Node) -> Node:
        x = new_input(Type(symbol("x").dtype, (types.value_dim(k, "k"),)))
        return scan(lambda r, h: r + h, [x], [symbol("h")])

    new, change, _ = changed([row(symbol("a", dtype="int64")), row(symbol("b", dtype="int64"))])
    assert len(change.seen) == len(scans(new)) == 2


def test_an_ensemble_is_pruned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = OpenScan.of

    def counted(node: Node) -> OpenScan:
        calls.append(node)
        return real(node)

    monkeypatch.setattr(OpenScan, "of", staticmethod(counted))
    x = symbol("x", "T", N)
    members = [recurrence(fn("exp", x * float(i)), symbol(f"w{i}", N)) for i in range(30)]
    notes: list[Note] = []
    prune([total(member) for member in members], notes)
    assert len(calls) <= 3


def test_members_of_an_ensemble_are_computed_as_one_by_one() -> None:
    x, weights = symbol("x", "T", "B", N), [symbol(f"w{i}", N, N) for i in range(3)]
    members = [scan(lambda r, h, w=w: fn("tanh", mm(r, w) + h), [x], [symbol("h", "B", N)]) for w in weights]  # type: ignore[misc]
    outputs, _ = checked(members)
    assert len(scans(outputs)) == 3 and len({node.params["body"] for node in scans(outputs)}) == 1
