"""scan against a plain Python loop: taps, several sequences and outputs, directions, lengths, until, all mixed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scanjit import types
from scanjit.ir import Node, constant, new_input
from scanjit.loops import ifelse, reduce, scan, until
from scanjit.ops.roles import Roles
from scanjit.ops.stretch import SUM
from scanjit.runtime.reference import evaluate
from scanjit.tensor import where, zeros
from scanjit.types import Type
from tests.loops import oracle

F64 = np.dtype("float64")


def symbol(name: str, *shape: Any, dtype: str = "float64") -> Node:
    dims = [types.size(d) if isinstance(d, str) else types.size() if d is None else d for d in shape]
    return new_input(Type(np.dtype(dtype), tuple(dims)), name)


def run(outputs: Any, env: dict[Node, Any]) -> list[np.ndarray]:
    return evaluate(outputs if isinstance(outputs, list) else [outputs], env)


# ---- everything at once ----------------------------------------------------------------------------------------------


@dataclass
class Case:
    """A scan to try. Values are small integers held as floats, so that results are exact whatever the order."""

    sequences: list[tuple[int, list[int]]]  # rows, taps
    outputs: list[list[int] | None]  # taps
    others: int
    n_steps: int | None
    symbolic_steps: bool
    symbolic_sizes: bool
    go_backwards: bool
    threshold: int | None
    row: tuple[int, ...]
    factors: list[int]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    steps = draw(st.integers(0, 5))
    sequence_taps = st.lists(st.integers(-3, 3), min_size=1, max_size=3, unique=True)
    sequences = []
    for taps in draw(st.lists(sequence_taps, max_size=3)):
        spare = draw(st.integers(0, 2))
        sequences.append((steps + max(0, *taps, 0) - min(0, *taps, 0) + spare, taps))
    output_taps = st.none() | st.lists(st.integers(-3, -1), min_size=1, max_size=3, unique=True)
    outputs = draw(st.lists(output_taps, min_size=1, max_size=3))
    given_steps = not sequences or draw(st.booleans())
    return Case(
        sequences,
        outputs,
        draw(st.integers(0, 2)),
        steps if given_steps else None,
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.none() | st.integers(-5, 30)),
        draw(st.sampled_from([(), (2,)])),
        draw(st.lists(st.integers(-2, 2), min_size=40, max_size=40)),
    )


def values(case: Case, args: tuple[Any, ...]) -> list[Any]:
    """What a step returns for its arguments: every output sees all of them, each with a factor of its own."""
    results = []
    for k in range(len(case.outputs)):
        total = args[0] * 0 + (k + 1) if args else constant(np.full(case.row, k + 1.0))
        for i, a in enumerate(args):
            total = total + a * case.factors[(7 * k + i) % len(case.factors)]
        results.append(total)
    return results


@settings(max_examples=250)
@given(cases())
def test_a_scan_is_a_loop(case: Case) -> None:
    rng = np.random.default_rng(len(case.factors) + sum(case.factors))
    integers = lambda *shape: rng.integers(-3, 4, shape).astype(float)
    env: dict[Node, Any] = {}

    def given_as_symbol(name: str, array: np.ndarray) -> Node:
        rows = [None if case.symbolic_sizes and array.ndim > len(case.row) else n for n in array.shape]
        node = symbol(name, *rows[:1], *array.shape[1:]) if rows else symbol(name)
        env[node] = array
        return node

    xs = [integers(rows, *case.row) for rows, _ in case.sequences]
    h0 = [
        None if taps is None else integers(*case.row) if taps == [-1] else integers(-min(taps), *case.row)
        for taps in case.outputs
    ]
    others = [integers(*case.row) for _ in range(case.others)]

    def numpy_step(*args: Any) -> tuple[list[Any], bool]:
        results = values(case, args) if args else [np.full(case.row, k + 1.0) for k in range(len(case.outputs))]
        return results, case.threshold is not None and bool(np.sum(results[0]) > case.threshold)

    expected = oracle.scan(
        numpy_step,
        [(x, taps) for x, (_, taps) in zip(xs, case.sequences, strict=True)],
        [None if taps is None else (h, taps) for h, taps in zip(h0, case.outputs, strict=True)],
        others,
        case.n_steps,
        case.go_backwards,
    )

    def step(*args: Any) -> Any:
        results = values(case, args)
        if case.threshold is None:
            return results
        total = SUM(results[0], axes=tuple(range(results[0].ndim)))
        return results, until(total > case.threshold)

    n_steps: Any = case.n_steps
    if n_steps is not None and case.symbolic_steps:
        n_steps = symbol("n", dtype="int64")
        env[n_steps] = np.int64(case.n_steps)
    found = scan(
        step,
        [
            dict(input=given_as_symbol(f"x{i}", x), taps=taps)
            for i, (x, (_, taps)) in enumerate(zip(xs, case.sequences, strict=True))
        ],
        [
            None if taps is None else dict(initial=given_as_symbol(f"h{i}", h), taps=taps)
            for i, (h, taps) in enumerate(zip(h0, case.outputs, strict=True))
        ],
        [given_as_symbol(f"w{i}", w) for i, w in enumerate(others)],
        n_steps=n_steps,
        go_backwards=case.go_backwards,
        return_list=True,
    )
    for got, rows in zip(run(found, env), expected, strict=True):
        np.testing.assert_array_equal(got, np.array(rows).reshape(len(rows), *case.row))


# ---- one thing at a time ---------------------------------------------------------------------------------------------

X = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0])


def rows(result: Any, env: dict[Node, Any] | None = None) -> list[float]:
    return run(result, env or {})[0].tolist()


def test_the_window_of_a_tap() -> None:
    x = symbol("x", "T")
    both = scan(lambda before, after: 10 * before + after, dict(input=x, taps=[-1, 2]))
    assert rows(both, {x: X}) == [31, 15, 49]  # t = 1, 2, 3: all t with t - 1 >= 0 and t + 2 < 6
    assert rows(scan(lambda a: a, dict(input=x, taps=[-2])), {x: X}) == [3, 1, 4, 1]
    assert rows(scan(lambda a: a, dict(input=x, taps=2)), {x: X}) == [4, 1, 5, 9]
    assert rows(scan(lambda b, a: 10 * a + b, dict(input=x, taps=(1, 0))), {x: X}) == [31, 14, 41, 15, 59]


def test_backwards_reads_from_the_end_also_with_fewer_steps() -> None:
    x = symbol("x", "T")
    assert rows(scan(lambda a: a, x, go_backwards=True), {x: X}) == [9, 5, 1, 4, 1, 3]
    assert rows(scan(lambda a: a, x, go_backwards=True, n_steps=2), {x: X}) == [9, 5]
    after = scan(lambda a, b: 10 * a + b, dict(input=x, taps=[0, 1]), go_backwards=True, n_steps=3)
    assert rows(after, {x: X}) == [59, 15, 41]
    before = scan(lambda a: a, dict(input=x, taps=[-1]), go_backwards=True)
    assert rows(before, {x: X}) == [5, 1, 4, 1, 3]


def test_backwards_each_sequence_from_its_own_end() -> None:
    x, y = symbol("x", "T"), symbol("y", "S")
    both = scan(lambda a, b: 10 * a + b, [x, y], go_backwards=True)
    assert rows(both, {x: X, y: X[:2]}) == [91, 53]
    assert rows(both, {x: X[:2], y: X}) == [19, 35]


def test_an_output_with_one_deep_tap_and_more_rows_than_it_needs() -> None:
    h = symbol("h", None)
    deep = scan(lambda a: a + 1, outputs_info=dict(initial=h, taps=[-3]), n_steps=5)
    assert rows(deep, {h: [10.0, 20.0, 30.0, 99.0]}) == [11, 21, 31, 12, 22]


def test_fibonacci() -> None:
    info = dict(initial=[0, 1], taps=[-2, -1])
    assert rows(scan(lambda a, b: a + b, outputs_info=info, n_steps=8)) == [1, 2, 3, 5, 8, 13, 21, 34]


def test_polynomial_power_and_a_running_total() -> None:
    a, c = symbol("a"), symbol("c", None)
    powers = scan(lambda p, base: p * base, outputs_info=1.0, non_sequences=a, n_steps=4)
    assert rows(powers, {a: 2.0}) == [2, 4, 8, 16]
    terms = scan(lambda factor, power, at: factor * at**power, [c, np.arange(10)], non_sequences=[a])
    assert rows(terms, {c: [1.0, 10.0, 100.0], a: 3.0}) == [1, 30, 900]
    assert rows(scan(lambda x, total: total + x, c, 0.0), {c: X}) == np.cumsum(X).tolist()


def test_outputs_that_feed_each_other() -> None:
    rabbits, foxes = scan(lambda r, f: (2 * r - f, f + r), outputs_info=[np.float64(4.0), np.float64(1.0)], n_steps=3)
    assert (rows(rabbits), rows(foxes)) == ([7, 9, 6], [5, 12, 21])


def test_zero_and_one_steps() -> None:
    x, n = symbol("x", "T"), symbol("n", dtype="int32")
    total = scan(lambda a, h: h + a, x, 0.0)
    assert rows(total, {x: X[:0]}) == []
    assert rows(total, {x: X[:1]}) == [3]
    some = scan(lambda a, h: h + a, x, 0.0, n_steps=n)
    assert [rows(some, {x: X, n: np.int32(k)}) for k in (0, 1, 3)] == [[], [3], [3, 4, 8]]
    assert rows(scan(lambda h: h, outputs_info=1.0, n_steps=0)) == []
    assert rows(scan(lambda a: a, dict(input=x, taps=[-2])), {x: X[:2]}) == []


def test_n_steps_as_any_integer() -> None:
    x = symbol("x", "T")
    for n in (2, np.int64(2), np.array(2), constant(np.int8(2)), symbol("a", 2).type.shape[0]):
        assert scan(lambda a: a, x, n_steps=n).type.shape == (2,)
    assert scan(lambda a: a, x, n_steps=x.type.shape[0]).type.shape == x.type.shape
    half = scan(lambda a: a, x, n_steps=types.size("T") // 2)
    assert rows(half, {x: X}) == [3, 1, 4]


def test_until_includes_the_step_that_meets_it() -> None:
    limit = symbol("limit")
    doubled = scan(lambda h: (2 * h, until(2 * h > limit)), outputs_info=1.0, n_steps=10)
    assert rows(doubled, {limit: 5.0}) == [2, 4, 8]
    assert rows(doubled, {limit: 1.0}) == [2]
    assert len(rows(doubled, {limit: 1e9})) == 10
    pair = scan(lambda h: ([2 * h, h], until(2 * h > limit)), outputs_info=[1.0, None], n_steps=10)
    flat = scan(lambda h: (2 * h, h, until(2 * h > limit)), outputs_info=[1.0, None], n_steps=10)
    assert pair[1] is not pair[0] and [rows(p, {limit: 5.0}) for p in pair] == [[2, 4, 8], [1, 2, 4]]
    assert [rows(p, {limit: 5.0}) for p in flat] == [[2, 4, 8], [1, 2, 4]]


def test_what_comes_after_until_knows_its_number_of_rows() -> None:
    limit = symbol("limit")
    ran = scan(lambda h: (2 * h, until(2 * h > limit)), outputs_info=1.0, n_steps=10)
    again = scan(lambda a, total: total + a, ran, 0.0)
    assert again.type.shape == ran.type.shape
    assert rows(again, {limit: 5.0}) == [2, 6, 14]
    last = scan(lambda h: h * 0 + ran, outputs_info=ran * 0, n_steps=2)
    assert run(last, {limit: 5.0})[0].tolist() == [[2, 4, 8]] * 2


def test_steps_close_over_anything() -> None:
    w, x = symbol("w"), symbol("x", "T")
    closed = scan(lambda a, h: h * w + a * (w + 1), x, 0.0)
    assert rows(closed, {w: 2.0, x: X[:3]}) == [9, 21, 54]
    node = closed.operands[0]
    roles = Roles.of(node)
    consts = roles.split(node.operands)[2]
    assert len(consts) == 2 and w in set(consts)  # w, and w + 1 as a whole


def test_constants_and_sizes_stay_inside() -> None:
    x = symbol("x", "T", 3)
    table = constant(np.arange(3.0))
    node = scan(lambda a, h: h + a * table * 2.0, x, np.zeros(3)).operands[0]
    assert Roles.of(node).split(node.operands)[2] == ()


def test_a_step_computes_sizes_of_sizes() -> None:
    """Values of known sizes alone are computed in the step. Except: sizes of results, which stacks have, too."""
    x = symbol("x", "T")

    def row(a: Node | float) -> Node:
        n = x.shape[0]
        return zeros(where(n > 3, 2, n)) + a

    found = [
        scan(row, x),
        scan(lambda a, h: h + row(a), x, row(0.0)),
        scan(lambda a: scan(lambda b: row(a * b), x), x),
        scan(lambda a: ifelse(a > 1.0, row(a), row(-a)), x),
        scan(lambda a: (row(a), until(a > 10.0)), x),
    ]
    for count, size in ((5, 2), (3, 3)):
        a = X[:count]
        many = np.repeat(a[:, None], size, 1)
        signed = np.where(many > 1, many, -many)
        wanted = [many, np.cumsum(many, 0), a[:, None, None] * many, signed, many]
        np.testing.assert_equal(run(found, {x: a}), wanted)


def test_nested_scans_close_over_the_outer_step() -> None:
    m = symbol("m", "T", "S")

    def outer(row: Node, h: Node) -> Node:
        return h + reduce(lambda a, total: total + a * h, row, 0.0)

    assert rows(scan(outer, m, 1.0), {m: np.array([[1.0, 2.0], [3.0, 4.0]])}) == [4, 32]


def test_the_same_variable_twice() -> None:
    x = symbol("x", "T")
    assert rows(scan(lambda a, b, h, c: a + b * c + h, [x, x], 0.0, 2.0), {x: X[:2]}) == [9, 12]
    assert rows(scan(lambda a, b: a + b, [x, dict(input=x, taps=[1])]), {x: X}) == [4, 5, 5, 6, 14]


def test_one_output_is_bare() -> None:
    x = symbol("x", "T")
    assert isinstance(scan(lambda a: a, x), Node)
    assert isinstance(scan(lambda a: [a], x), Node)
    assert isinstance(scan(lambda a: a, x, return_list=True), list)
    assert isinstance(scan(lambda a: (a, a), x), list)


def test_numbers_that_a_step_returns_are_constants() -> None:
    x = symbol("x", "T", dtype="float32")
    one, two = scan(lambda a, h: (1, 2.5), x, [None, np.float32(0)])
    assert (one.dtype, two.dtype) == (np.int64, np.float32)
    assert [rows(r, {x: X[:2].astype("f4")}) for r in (one, two)] == [[1, 1], [2.5, 2.5]]


def test_equal_scans_are_one_node() -> None:
    x = symbol("x", "T")
    assert scan(lambda a, h: h + a, x, np.float64(0)) is scan(lambda p, q: q + p, x, np.float64(0))


def test_carries_of_a_delay_line_move_up() -> None:
    h = symbol("h", 3)
    node = scan(lambda a: a * 2.0, outputs_info=dict(initial=h, taps=[-3]), n_steps=4).operands[0]
    body = node.params["body"]
    assert Roles.of(node) == Roles(carries=3, sequences=0, ys=1, until=False)
    assert body.outputs[0] is body.inputs[1] and body.outputs[1] is body.inputs[2]
    assert body.outputs[2] is body.outputs[3]


# ---- Python numbers as initial values --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("initial", "x", "step", "expected"),
    [
        (0.0, "float32", lambda a, h: h + a, "float32"),
        (0.0, "float32", lambda a, h: 0.5 * h + a * 2.0, "float32"),
        (0.0, "float64", lambda a, h: h + a, "float64"),
        (0.0, "int64", lambda a, h: 0.5 * h, "float64"),
        (0.0, "int64", lambda a, h: h + a, "float64"),
        (0, "float32", lambda a, h: h + a, "float32"),
        (0, "float64", lambda a, h: h + a, "float64"),
        (0, "int32", lambda a, h: h + a, "int32"),
        (0, "int64", lambda a, h: h + 1, "int64"),
        (0, "float32", lambda a, h: h + 1, "int64"),
        (0, "float32", lambda a, h: 0.5 * h, "float64"),
        (0, "uint8", lambda a, h: h + a, "uint8"),
        (0, "int8", lambda a, h: h + (a > 0), "int64"),
        (0, "int8", lambda a, h: h + (a > h), "int64"),
        (0, "uint8", lambda a, h: np.where(a > h, h + 1, 0), "int64"),
        (0.0, "float32", lambda a, h: np.where(a > h, 0.5 * h, a), "float32"),
        (False, "float32", lambda a, h: (a > 0) | h, "bool"),
        (False, "int32", lambda a, h: h + a, "int32"),
        (1.0, "float32", lambda a, h: 1.0, "float64"),
    ],
)
def test_a_python_number_is_a_weak_initial_value(initial: Any, x: str, step: Any, expected: str) -> None:
    result = scan(step, symbol("x", "T", dtype=x), initial)
    assert result.dtype == expected
    assert result.operands[0].params["body"].inputs[0].dtype == expected


def test_weak_initial_values_that_feed_each_other() -> None:
    a, b = scan(lambda x, h, c: (h + c, c * 0.5 + x), symbol("x", "T", dtype="float32"), [0.0, 1])
    assert (a.dtype, b.dtype) == (np.float32, np.float32)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float32"])
def test_counters_have_64_bits_whatever_is_compared(dtype: str) -> None:
    def step(x, before, run):
        return x, np.where(x == before, run + 1, 0)

    before, run = scan(step, symbol("x", "T", dtype=dtype), [0, 0])
    assert (before.dtype, run.dtype) == (dtype, np.int64)


def test_a_step_is_called_once_unless_a_dtype_must_be_found() -> None:
    calls = []
    scan(lambda a, h: calls.append(a) or h + a, symbol("x", "T"), np.float64(0))
    scan(lambda a, h: calls.append(a) or h + a, symbol("x", "T"), 0.0)
    assert len(calls) == 2


# ---- what passes through to the node ---------------------------------------------------------------------------------


def test_options_are_parameters_of_the_node() -> None:
    x = symbol("x", "T")
    node = scan(lambda a: a, x, truncate_gradient=3, unroll=np.int64(4), checkpoint="sqrt", name="loop").operands[0]
    kept = {key: node.params[key] for key in ("truncate", "unroll", "checkpoint", "name", "reverse", "until")}
    assert kept == dict(truncate=3, unroll=4, checkpoint="sqrt", name="loop", reverse=False, until=False)
    assert scan(lambda a: a, symbol("y", 3), unroll=True).operands[0].params["unroll"] is True


def test_nodes_inside_know_the_line_of_the_step() -> None:
    node = scan(lambda a: a * 3.0625, symbol("x", "T")).operands[0]
    assert node.where.startswith(__file__)
    assert all(n.where.startswith(__file__) for n in node.params["body"].outputs)


def test_strict_allows_what_was_passed() -> None:
    w, x = symbol("w"), symbol("x", "T")
    passed = scan(lambda a, v: a * v * 2.0 + (v + 1), x, non_sequences=w, strict=True)
    assert rows(passed, {w: 2.0, x: X[:2]}) == [15, 7]
