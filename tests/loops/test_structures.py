"""Nested sequences, states and constants: tuples, dicts, named tuples, dataclasses."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

from scanjit.errors import ArgumentError
from scanjit.ir import Node
from scanjit.loops import associative_scan, foldl, map, scan, until, while_loop
from scanjit.loops.structure import flatten
from tests.loops.test_scan import run, symbol


class State(NamedTuple):
    h: Any
    c: Any


@dataclass
class Memory:
    key: Any
    value: Any


X = np.array([1.0, 2.0, 3.0])
H, C = np.cumsum(X), np.cumsum(np.cumsum(X))


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda h, c: (h, c), lambda s: (s[0], s[1])),
        (lambda h, c: {"h": h, "c": c}, lambda s: (s["h"], s["c"])),
        (State, lambda s: (s.h, s.c)),
        (Memory, lambda s: (s.key, s.value)),
        (lambda h, c: ((h,), {"rest": c}), lambda s: (s[0][0], s[1]["rest"])),
    ],
)
def test_a_state_comes_back_as_it_went_in(make: Any, parts: Any) -> None:
    x = symbol("x", "T")

    def step(a: Node, state: Any) -> Any:
        assert type(state) is type(make(0, 0))
        h, c = parts(state)
        return make(h + a, c + h + a)

    for wrapped in (False, True):  # alone, and as one of the outputs of a list
        fn = (lambda a, s: [step(a, s)]) if wrapped else step
        result = scan(fn, x, [make(0.0, 0.0)])
        assert type(result) is type(make(0, 0))
        h, c = run(list(parts(result)), {x: X})
        assert h.tolist() == H.tolist() and c.tolist() == C.tolist()


def test_the_order_of_keys_does_not_matter() -> None:
    x = symbol("x", "T")
    result = scan(lambda a, s: {"c": s["c"] + 1, "h": s["h"] + a}, x, [{"h": 0.0, "c": 0}])
    assert list(result) == ["h", "c"]
    assert result["h"].dtype == np.float64 and result["c"].dtype == np.int64
    assert run(result["h"], {x: X})[0].tolist() == H.tolist()


def test_a_dict_as_the_whole_argument_is_one_entry() -> None:
    x = symbol("x", "T")
    result = scan(lambda a, s: {"h": s["h"] + a["x"]}, {"x": x}, {"h": 0.0})
    assert run(result["h"], {x: X})[0].tolist() == H.tolist()


def test_taps_of_structures() -> None:
    x, h, c = symbol("x", "T"), symbol("h", 2), symbol("c", 2)

    def step(before: Any, now: Any, two: Any, one: Any) -> Any:
        assert isinstance(before, State) and isinstance(two, State)
        return State(before.h * 10 + now.c + two.h, one.c + 1)

    result = scan(step, dict(input=State(x, x), taps=[-1, 0]), dict(initial=State(h, c), taps=[-2, -1]))
    got = run([result.h, result.c], {x: X, h: [0.5, 0.25], c: [0.0, 7.0]})
    assert [g.tolist() for g in got] == [[12.5, 23.25], [8.0, 9.0]]


def test_rows_are_those_of_the_shortest_tensor_in_a_structure() -> None:
    x, y = symbol("x", "T"), symbol("y", "S")
    pair = map(lambda p: p[0] * p[1], [(x, y)])
    assert run(pair, {x: X, y: X[:2]})[0].tolist() == [1, 4]


def test_nested_outputs_that_are_not_fed_back() -> None:
    x = symbol("x", "T")
    first, second = map(lambda a: ({"double": 2 * a, "half": a / 2}, a), x)
    assert run([first["double"], first["half"], second], {x: X})[0].tolist() == (2 * X).tolist()
    named = map(lambda a: State(a, -a), x)
    assert isinstance(named, State) and run(named.c, {x: X})[0].tolist() == (-X).tolist()


def test_structures_with_until_and_with_constants() -> None:
    x = symbol("x", "T")

    def step(a: Node, s: State, k: dict[str, Any]) -> Any:
        return State(s.h + a * k["one"], s.c), until(s.h + a > k["limit"])

    result = scan(step, x, [State(0.0, 1.0)], [{"one": 1.0, "limit": np.float64(2.0)}])
    assert run([result.h, result.c], {x: X})[0].tolist() == [1, 3]


def test_a_fold_of_a_structure() -> None:
    x = symbol("x", "T")
    result = foldl(lambda a, s: State(s.h + a, s.c * a), x, [State(0.0, 1.0)])
    assert [float(v) for v in run([result.h, result.c], {x: X})] == [6, 6]


def test_lists_of_numbers_are_arrays_and_other_lists_structures() -> None:
    assert flatten([1, 2.0])[0] == [[1, 2.0]]
    x = symbol("x", "T")
    assert len(flatten([x, (1, 2)])[0]) == 3
    result = scan(lambda a, s: [s[0] + a, s[1]], x, [[np.zeros(2), np.zeros(3)]])
    assert isinstance(result, list) and [r.ndim for r in result] == [2, 2]


class Alone(NamedTuple):
    h: Any


@pytest.mark.parametrize(
    "state", [lambda h: (h,), lambda h: [h], lambda h: {"h": h}, Alone], ids=["tuple", "list", "dict", "named"]
)
def test_structures_of_one_tensor(state: Any) -> None:
    x, x0 = symbol("x", "T"), symbol("x0")
    get = lambda s: next(iter(s.values() if isinstance(s, dict) else s))
    for returned in (lambda s: s, lambda s: (s,), lambda s: [s]):
        looped = scan(lambda a, s, r=returned: r(state(get(s) + a)), x, [state(x0)])
        assert type(looped) is type(state(0.0)) and run(get(looped), {x: X, x0: 1.0})[0].tolist() == [2, 4, 7]
    last = while_loop(lambda s: get(s) < 9.0, lambda s: state(get(s) + 1.0), state(x0))
    assert type(last) is type(state(0.0)) and run(get(last), {x0: 1.5})[0] == 9.5
    products = associative_scan(lambda a, b: state(get(a) * get(b)), state(x))
    assert type(products) is type(state(0.0)) and run(get(products), {x: X})[0].tolist() == [1, 2, 6]


class Pair(tuple[Any, ...]):
    """A tuple that is no named one."""


@dataclass
class Derived:
    h: Any
    square: Any = field(init=False)

    def __post_init__(self) -> None:
        self.h = np.array(self.h) if isinstance(self.h, np.ndarray) else self.h  # equal, and not the same
        self.square = self.h * self.h


@dataclass
class Doubled:
    h: Any

    def __post_init__(self) -> None:
        self.h = self.h * 2.0


def test_what_classes_do_when_they_are_made() -> None:
    """Structures are made again, so one that changes what it gets would change it twice."""
    x = symbol("x", "T")
    h, c = scan(lambda a, s: Pair([s[0] + a, s[1] + s[0] + a]), x, [Pair([0.0, 0.0])])
    assert [part.tolist() for part in run([h, c], {x: X})] == [H.tolist(), C.tolist()]
    result = scan(lambda a, s: Derived(s.h + a), x, [Derived(0.0)])
    assert run(result.square, {x: X})[0].tolist() == (H * H).tolist()
    values = np.array([1.0, np.nan])
    leaves, tree = flatten(Derived(values))
    assert tree.unflatten(leaves).h is not values
    with pytest.raises(ArgumentError, match="Doubled changes its field h when it is made"):
        scan(lambda a, s: Doubled(s.h + a), x, [Doubled(0.0)])
    leaves, tree = flatten(Doubled(values))
    with pytest.raises(ArgumentError, match="init=False"):
        tree.unflatten(leaves)


@dataclass
class Counted:
    h: Any
    count: Any = field(init=False)
    seen: list[Any] = field(init=False, default_factory=list, compare=False)


def test_fields_that_would_be_lost_when_a_class_is_made_again() -> None:
    given = Counted(1.0)
    leaves, tree = flatten(given)  # it has no count yet
    given.seen.append(1)
    assert tree.unflatten(leaves).h == 1.0 and flatten(given)[0] == [1.0]
    given.count = 3
    with pytest.raises(
        ArgumentError, match=r"field count of Counted does not follow.*\n.*3 .int.\n.*nothing\n.*init=False"
    ):
        flatten(given)
    changed = Derived(2.0)
    changed.square = 5.0
    with pytest.raises(ArgumentError, match=r"field square of Derived .*\n.*5.0 .float.\n.*4.0 .float."):
        flatten([changed])
