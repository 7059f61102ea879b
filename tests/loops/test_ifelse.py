"""`ifelse`: the branch that is not taken is not run, in compiled code neither; gradients, batches, loops, errors."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit import ir
from scanjit.ops.branch import IFELSE
from tests.pairs import pairwise
from tests.refusals import refused


@pytest.fixture(params=["reference", "emulate"])
def mode(request):
    return request.param


def modes_agree(inputs, outputs, *calls, modes=("emulate",)):
    """Compiled functions give what the reference interpreter gives; which is returned for each call."""
    oracle = sj.function(inputs, outputs, mode="reference")
    wanted = [oracle(*args) for args in calls]
    for mode in modes:
        f = sj.function(inputs, outputs, mode=mode)
        for args, expected in zip(calls, wanted, strict=True):
            for a, b in zip(f(*args), expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    return wanted


def test_what_is_not_taken_does_not_run_and_may_not_even_be_possible():
    x, i = sj.vector("x"), sj.scalar("i", dtype="int64")
    y = sj.ifelse(i < x.shape[0], x[i] * 2, -1.0)
    calls = [([1.0, 2.0], 1), ([1.0, 2.0], 7)]
    wanted = modes_agree([x, i], [y, sj.grad(y, x)], *calls, modes=("emulate", "numba"))
    assert wanted[0][0] == 4 and wanted[0][1].tolist() == [0, 2] and wanted[1][0] == -1 and not wanted[1][1].any()
    both = sj.where(i < x.shape[0], x[i] * 2, -1.0)
    with pytest.raises(sj.OutOfBoundsError):
        sj.function([x, i], both, mode="emulate")([1.0, 2.0], 7)


def test_within_a_step_only_the_rows_that_are_wanted_are_computed():
    xs, at, table = sj.vector("xs"), sj.vector("at", dtype="int64"), sj.vector("table")

    def step(x, i, h):
        return sj.ifelse(x > 0, lambda: h + table[i] * x, lambda: h)

    hs = sj.scan(step, [xs, at], sj.constant(1.0))
    outputs = [hs, *sj.grad(hs.sum(), [xs, table])]
    given = np.array([1.0, -1, 2, -3]), np.array([1, 99, 0, -77]), np.array([10.0, 20.0])
    (got,) = modes_agree([xs, at, table], outputs, given, modes=("emulate", "numba"))
    np.testing.assert_array_equal(got[0], [21, 21, 41, 41])
    np.testing.assert_array_equal(got[2], [2 * 2, 4 * 1])
    given[0][1] = 1.0
    for mode in ("reference", "emulate"):
        with pytest.raises(sj.OutOfBoundsError):
            sj.function([xs, at, table], hs, mode=mode)(*given)


def test_a_condition_on_rows_alone_keeps_its_branches_in_the_loop(mode):
    xs, at, table = sj.vector("xs"), sj.vector("at", dtype="int64"), sj.vector("table")
    before = sj.map(lambda x, i: sj.ifelse(x > 0, lambda: sj.exp(table[i]), lambda: x), [xs, at])
    behind = sj.scan(
        lambda x, i, h: [h + x, sj.ifelse(h < 0, lambda: table[i], lambda: h)], [xs, at], [sj.constant(0.0), None]
    )[1]
    f = sj.function([xs, at, table], [before, behind], mode=mode)
    first, second = f([1.0, -2.0, 3.0], [0, 50, 0], [7.0])
    np.testing.assert_allclose(first, [np.exp(7.0), -2.0, np.exp(7.0)])
    assert second.tolist() == [0, 1, 7]
    with pytest.raises(sj.OutOfBoundsError):
        f([1.0, 2.0, 3.0], [0, 50, 0], [7.0])


def test_what_does_not_change_is_one_branch_before_the_loop(rng: np.random.Generator):
    x, w, on = sj.matrix("x"), sj.matrix("w"), sj.scalar("on", dtype="bool")
    y = sj.scan(lambda row, h: sj.tanh(row + h @ sj.ifelse(on, lambda: w @ w, lambda: w)), x, sj.zeros(3))
    given = rng.normal(size=(4, 3)), rng.normal(size=(3, 3))
    modes_agree([x, w, on], [y, sj.grad(y.sum(), w)], (*given, True), (*given, False))


def test_structures_and_several_results(mode):
    x, on = sj.vector("x"), sj.scalar("on", dtype="bool")
    y = sj.ifelse(on, lambda: {"a": x + 1, "b": (x.sum(), 2)}, lambda: {"b": (0.0, x.shape[0]), "a": -x})
    f = sj.function([x, on], y, mode=mode)
    a, b = f([1.0, 2.0], True), f([1.0, 2.0, 4.0], False)
    assert a["a"].tolist() == [2, 3] and a["b"][0] == 3 and a["b"][1] == 2 and a["b"][1].dtype == np.int64
    assert b["a"].tolist() == [-1, -2, -4] and b["b"][0] == 0 and b["b"][1] == 3


def test_derivatives_of_any_order(rng: np.random.Generator):
    xs, w = rng.normal(size=(4, 2)), rng.normal(size=(2, 2))

    def last(x, w):
        def step(row, h):
            return sj.ifelse(row.sum() > 0, lambda: sj.tanh(row @ w + h), lambda: h * h * 0.5)

        return sj.scan(step, x, sj.ones(2))[-1]

    sj.check_grad(last, [xs, w], order=2)
    sj.check_grad(lambda x: sj.ifelse(x[0] > 0, lambda: sj.exp(x), lambda: x * 3.0), [np.array([-1.0, 2.0])], order=2)


def test_no_gradient_leaks_from_the_other_branch(mode):
    x = sj.scalar("x")
    y = sj.ifelse(x > 0, sj.log(x), 0.0)
    assert sj.function([x], sj.grad(y, x), mode=mode)(0.0) == 0.0
    assert np.isnan(sj.function([x], sj.grad(sj.where(x > 0, sj.log(x), 0.0), x), mode=mode)(0.0))


def test_gradients_for_nodes_that_branches_depend_on():
    x, on = sj.vector("x"), sj.scalar("on", dtype="bool")
    h = sj.tanh(x)
    y = sj.ifelse(on, (h * h).sum() + h[0], x.sum())
    z = sj.ifelse(on, y * 2, y)
    outputs = [*sj.grad(z, [h, x]), sj.grad(z, h, consider_constant=[y], disconnected="zero"), sj.jvp(z, h, h)]
    t = np.tanh([0.5, -1.0])
    (a, b) = modes_agree([x, on], outputs, ([0.5, -1.0], True), ([0.5, -1.0], False))
    of_h = 2 * (2 * t + [1, 0])
    np.testing.assert_allclose(a[0], of_h)
    np.testing.assert_allclose(a[1], of_h * (1 - t**2))
    np.testing.assert_allclose(a[3], of_h @ t)
    assert not a[2].any() and not b[0].any() and b[1].tolist() == [1, 1]


def test_batches(rng: np.random.Generator):
    x, on = rng.normal(size=(3, 2)), np.array([True, False, True])
    X, ON, one = sj.matrix("X"), sj.vector("on", dtype="bool"), sj.scalar("one", dtype="bool")

    def choose(x, on):
        return sj.ifelse(on, lambda: sj.exp(x), lambda: x)

    by_example = sj.vmap(choose)(X, ON)
    together = sj.vmap(choose, in_axes=(0, None))(X, one)
    outputs = [by_example, together, sj.grad(by_example.sum(), X)]
    (a, b) = modes_agree([X, ON, one], outputs, (x, on, True), (x, on, False))
    np.testing.assert_allclose(a[0], np.where(on[:, None], np.exp(x), x))
    np.testing.assert_allclose(a[1], np.exp(x))
    np.testing.assert_allclose(b[1], x)
    assert "ifelse" in sj.pprint(together) and "where" in sj.pprint(by_example)


def test_loops_and_branches_inside_of_branches(mode):
    x, n = sj.vector("x"), sj.scalar("n", dtype="int64")
    inner = sj.ifelse(n > 5, lambda: sj.scan(lambda v, h: h * v, x, sj.constant(2.0))[-1], lambda: x[n])
    y = sj.ifelse(n > 0, lambda: inner + x.sum(), lambda: x[n + 7])
    f = sj.function([x, n], [y, sj.grad(y, x)], mode=mode)
    value, slope = f([2.0, 3.0, 4.0], 6)
    assert value == 48 + 9 and slope.tolist() == [25, 17, 13]
    assert f([2.0, 3.0, 4.0], 1)[0] == 3 + 9
    with pytest.raises(sj.OutOfBoundsError):
        f([2.0, 3.0, 4.0], 0)


def test_a_product_reads_what_its_own_branch_computed(rng: np.random.Generator):
    x, y, on = sj.matrix("x"), sj.matrix("y"), sj.scalar("on", dtype="bool")

    def then():
        h = sj.exp(x)  # lies in the first result: it is not there before the branch runs
        return h, y @ h

    outputs = sj.ifelse(on, then, lambda: (x, y))
    given = rng.normal(size=(2, 3, 3))
    modes_agree([x, y, on], outputs, (*given, True), (*given, False))


def test_results_of_a_loop_before_the_step_are_operands(rng: np.random.Generator):
    x = sj.matrix("x")
    loop = sj.scan(lambda row, h: [sj.tanh(h + row), h * row], x, [sj.zeros(2), None])

    def step(row):
        again = sj.scan(lambda row, h: [sj.tanh(h + row), h * row], x, [sj.zeros(2), None])  # the same one
        return sj.ifelse(row[0] > 0, lambda: again[0][-1] + row, lambda: again[1].sum(0) * row)

    (got,) = modes_agree([x], [sj.map(step, x), loop[0]], (rng.normal(size=(4, 2)),))
    assert got[0].shape == (4, 2)


def test_loops_that_end_early_inside_of_branches():
    x, on = sj.vector("x"), sj.scalar("on", dtype="bool")
    sums = sj.scan(lambda v, h: (h + v, sj.until(h + v > 3)), x, sj.constant(0.0))
    doubled = sj.while_loop(lambda v: v < 100, lambda v: v * 2, x[0])
    last, whole = sj.ifelse(on, sums[-1], doubled), sj.ifelse(on, sums, sums * sums)
    given = [1.0, 2.5, 4.0]
    a, b = modes_agree([x, on], [last, whole, sj.grad(last + whole.sum(), x)], (given, True), (given, False))
    assert a[0] == 3.5 and a[1].tolist() == [1, 3.5] and a[2].tolist() == [3, 2, 0]
    assert b[0] == 128 and b[1].tolist() == [1, 3.5**2] and b[2].tolist() == [128 + 2 + 7, 7, 0]


def test_what_is_needed_anyway_is_computed_once_and_known_conditions_are_none():
    x, on = sj.vector("x"), sj.scalar("on", dtype="bool")
    h = sj.exp(x)
    f = sj.function([x, on], [h.sum(), sj.ifelse(on, h * 2, h)], mode="emulate")
    nests = f.source.split("def ")
    assert sum("= exp(" in nest for nest in nests) == 1 and "if runs0 != 0" in f.source
    assert f([0.0], True)[1] == 2.0
    assert "if runs0" not in sj.function([x], sj.ifelse(True, x, -x), mode="emulate").source


@pytest.mark.parametrize("depends", [True, False])
def test_a_chain_of_branches_holds_none_inside_of_another(depends: bool) -> None:
    """Each would hold all those before it twice, and its gradient four times."""
    x, on = sj.vector("x"), sj.vector("on", "bool")
    y = x
    for i in range(30):
        y = sj.ifelse(y[0] > 0 if depends else on[i % 2], lambda y=y: sj.sin(y) * 2, lambda y=y: y + 0.5)
    outputs = [y, sj.grad(y.sum(), x)]
    assert sum(node.op is IFELSE for node in ir.walk(outputs)) == 60
    assert not any(node.op is IFELSE for graph in ir.graphs_in(ir.walk(outputs)) for node in graph.nodes())
    modes_agree([x, on], outputs, ([0.3, -0.7], [True, False]), ([-0.3, 0.2], [False, True]))


def test_it_reads_well(capsys):
    x, on = sj.vector("x"), sj.scalar("on", dtype="bool")
    assert sj.pprint(sj.ifelse(on, x + 1, x * 2) * 3) == "ifelse(on, x + 1.0, x * 2.0) * 3.0"
    several = sj.ifelse(on, (x + 1, x), (x * 2, -x))
    assert sj.pprint(several[1]) == "ifelse(on, (x + 1.0, x), (x * 2.0, -x))[1]"
    sj.dprint(several[0])
    assert "  | then %" in (listed := capsys.readouterr().out) and "; else %" in listed


def test_errors():
    x, m, on = sj.vector("x"), sj.tensor((3,), name="m"), sj.scalar("on", dtype="bool")
    with refused(sj.ArgumentError, "the condition of ifelse must be a boolean scalar", "sj.where"):
        sj.ifelse(x > 0, x, x)
    with refused(sj.ArgumentError, "the branches of ifelse have different structures"):
        sj.ifelse(on, (x, x), (x,))
    with refused(sj.DtypeError, "the branches of ifelse have different dtypes: ['a']", "b.astype('float64')"):
        sj.ifelse(on, {"a": x}, {"a": x.astype("float32")})
    with refused(sj.ShapeError, "the branches of ifelse have different shapes", "float64()"):
        sj.ifelse(on, x, x.sum())
    with refused(sj.ShapeError, "the branches of ifelse have different shapes", "float64(2)"):
        sj.ifelse(on, m, m[:2])
    with refused(sj.DtypeError, "the branches of ifelse have different dtypes"):
        sj.ifelse(on, x.shape[0], 0.5)


def test_sizes_that_are_not_known_are_checked_when_it_runs(mode):
    x, y, on = sj.vector("x"), sj.vector("y"), sj.scalar("on", dtype="bool")
    f = sj.function([x, y, on], sj.ifelse(on, x, y), mode=mode)
    assert f([1.0], [2.0], False) == 2.0
    with refused(sj.ShapeError, "the results of the branches of ifelse"):
        f([1.0], [2.0, 3.0], True)


def same(compiled: Any, plain: Any, *given: Any, messages: bool = False) -> bool:
    """Whether compiled code gives a value: that of the reference. If this raises an error, so does compiled code."""
    try:
        expected = plain(*given)
    except (sj.OutOfBoundsError, sj.ShapeError, sj.ScanError) as error:
        with pytest.raises(type(error)) as caught:
            compiled(*given)
        assert not messages or str(caught.value) == str(error)
        return False
    np.testing.assert_allclose(compiled(*given), expected, rtol=1e-12, atol=1e-13)
    return True


@pytest.mark.parametrize("case", ["last", "gradient", "filter", "set", "nested"])
def test_sizes_that_a_branch_computes_are_checked_if_it_is_taken(case: str) -> None:
    """Compiled code plans memory by them: it must not even begin."""
    x, taken, inner = sj.vector("x"), sj.scalar("taken", "bool"), sj.scalar("inner", "bool")

    def running() -> sj.Node:
        return sj.scan(lambda row, h: (sj.tanh(h + row), sj.until(h + row > 2)), x, 0.5)

    def kept() -> sj.Node:
        return sj.filter(lambda row: row > 0, x)

    y = {
        "last": lambda: sj.ifelse(taken, lambda: running()[-1], lambda: 0.25),
        "gradient": lambda: sj.grad(sj.ifelse(taken, lambda: running()[-1] * 2, lambda: x.sum()), x),
        "filter": lambda: sj.ifelse(taken, lambda: kept()[-1], lambda: 0.25),
        "set": lambda: sj.ifelse(taken, lambda: kept()[-1].set(5.0).sum(), lambda: 0.25),
        "nested": lambda: sj.ifelse(taken, lambda: sj.ifelse(inner, lambda: kept()[-1] * 2, lambda: -1.0), 0.25),
    }[case]()
    plain, compiled = (sj.function([x, taken, inner], y, mode=mode) for mode in ("reference", "emulate"))
    values, flags = ([], [-1.0, -2.0], [3.0, -1.0, 2.0]), ((True, True), (True, False), (False, True))
    assert not all([same(compiled, plain, v, *on, messages=True) for v, on in itertools.product(values, flags)])


def _product(x: sj.Node, size: Any) -> sj.Node:
    """A sum over as many entries as `size` says, which has to be 3."""
    return (sj.broadcast_to(sj.sin(x[0]), (size,)) * sj.cos(x)[np.array([0, 1, 0])]).sum()


@pytest.mark.quick(8)
@pytest.mark.parametrize(
    "case",
    ["argument", "entry", "negative", "filter", "index", "inner", "loop", "branch", "outer", "alone", "gradient"]
    + ["read", "twice", "largest", "factor", "steps"]
    + ["chosen", "condition", "walk", "until", "walk in a choice", "choice in a walk"]
    + ["gradient of a choice", "gradient of steps"],
)
def test_sizes_of_all_steps_are_checked_in_the_steps_that_take_the_branch(case: str) -> None:
    """Such a size is computed before the loop, for the memory that it needs; whether it fits matters in the branch."""
    x, n, m, on = sj.vector("x"), sj.vector("n", "int64"), sj.scalar("m", "int64"), sj.vector("on", "bool")

    def chosen(size: Callable[[], sj.Node]) -> sj.Node:
        return sj.scan(lambda c, h: sj.ifelse(c, lambda: h + size(), lambda: h * 2), on, x[0])

    def either(size: Callable[[], sj.Node]) -> sj.Node:
        return sj.ifelse(x[0] > 1, size, lambda: n[0])

    def walk(step: Callable[[sj.Node], sj.Node]) -> sj.Node:
        return sj.scan(step, outputs_info=m - 3, n_steps=2)[-1]

    y = {
        "argument": lambda: chosen(lambda: _product(x, m)),
        "entry": lambda: chosen(lambda: _product(x, n[0] + 1)),
        "negative": lambda: chosen(lambda: sj.zeros((m - 3,)).sum()),
        "filter": lambda: chosen(lambda: _product(x, sj.filter(lambda v: v > 1, x).shape[0])),
        "index": lambda: chosen(lambda: x[: n[0]][2]),
        "inner": lambda: sj.scan(lambda c, h: chosen(lambda: h * _product(x, n[0] + 1))[-1], on, x[0]),
        "loop": lambda: chosen(lambda: sj.scan(lambda g: g * _product(x, n[0] + 1), outputs_info=x[1], n_steps=2)[-1]),
        "branch": lambda: chosen(lambda: sj.ifelse(x[1] > 0, lambda: _product(x, n[0] + 1), lambda: 0.5)),
        "outer": lambda: sj.ifelse(m > 0, lambda: chosen(lambda: _product(x, n[0] + 1))[-1], lambda: 0.5),
        "alone": lambda: sj.ifelse(on[0], lambda: _product(x, m), lambda: x[1]),
        "read": lambda: chosen(lambda: sj.arange(n[m - 3]).sum() * x[1]),
        "twice": lambda: chosen(lambda: x[: n[n[m - 3] - 3]].sum()),
        "largest": lambda: chosen(lambda: x[: sj.argmax(x) + n[m - 3]].sum()),
        "factor": lambda: chosen(lambda: x[: sj.cast(sj.cholesky(x * x[:, None] + 1)[0, 0], int) * n[m - 3]].sum()),
        "steps": lambda: chosen(lambda: sj.scan(lambda g: g * 0.5, outputs_info=x[1], n_steps=n[m - 3])[-1]),
        "chosen": lambda: chosen(lambda: x[: either(lambda: n[m - 3])].sum()),
        "condition": lambda: chosen(lambda: x[: sj.ifelse(n[m - 3] > 2, lambda: n[0], lambda: m)].sum()),
        "walk": lambda: chosen(lambda: x[: walk(lambda g: n[g] - 3)].sum()),
        "until": lambda: chosen(lambda: x[: sj.while_loop(lambda g: g > 0, lambda g: n[g - 1] - 4, m - 2)].sum()),
        "walk in a choice": lambda: chosen(lambda: x[: either(lambda: walk(lambda g: n[g] - 3))].sum()),
        "choice in a walk": lambda: chosen(
            lambda: x[: walk(lambda g: sj.ifelse(g > 0, lambda: n[g - 1], lambda: n[g] - 3))].sum()
        ),
        "gradient of a choice": lambda: sj.grad(chosen(lambda: sj.sin(x)[: either(lambda: n[m - 3])].sum())[-1], x),
        "gradient of steps": lambda: sj.grad(
            chosen(lambda: sj.scan(lambda g: g * sj.sin(g), outputs_info=x[1], n_steps=m - 4)[-1])[-1], x
        ),
        "gradient": lambda: sj.grad(chosen(lambda: sj.sin(x[1]) * _product(x, n[0] + 1))[-1], x),
    }[case]()
    plain, compiled = (sj.function([x, n, m, on], y, mode=mode) for mode in ("reference", "emulate"))
    flags, values = ([True, True], [False, True], [False, False]), ([0.5, 1.5, 2.5], [1.5, -1.0], [1.5, 2.0, 3.0])
    cases = itertools.product((2, 3, 5), flags, values)
    passed = [same(compiled, plain, v, [number], number, on) for number, on, v in cases]
    assert 9 < sum(passed) < len(passed)


@pytest.mark.parametrize("derived", [False, True])
def test_a_length_of_a_branch_is_read_only_if_it_is_taken(derived: bool) -> None:
    """Whether the branch runs depends on its length too: there must be a step whose value is read."""
    x, n, m = sj.vector("x"), sj.vector("n", "int64"), sj.scalar("m", "int64")
    y = sj.ifelse(m > 0, lambda: sj.scan(lambda g: g * x[1], outputs_info=x[1], n_steps=n[m])[-1], lambda: x[0])
    y = sj.grad(y, x) if derived else y
    plain, compiled = (sj.function([x, n, m], y, mode=mode) for mode in ("reference", "emulate"))
    for values, number in itertools.product(([3, 2], [2, 0, 1], [4]), (-7, 0, 1)):
        same(compiled, plain, [0.5, 1.5], values, number)


def test_sizes_of_sizes_in_a_branch_are_computed_only_if_it_is_taken() -> None:
    """`x` is too short for the inner size: the branch that asks for it is not taken."""
    x, k, on = sj.vector("x"), sj.scalar("k", "int64"), sj.scalar("on", "bool")

    def entry(at: Any) -> sj.Node:
        return sj.cast(x[k:][at], "int64")

    y = sj.ifelse(on, lambda: x[: entry(sj.cast(x[: entry(0)][0], "int64"))].sum(), lambda: x[0])
    plain, compiled = (sj.function([x, k, on], y, mode=mode) for mode in ("reference", "emulate"))
    for first, taken in itertools.product((0, 1, 2), (False, True)):
        same(compiled, plain, [1.0, 1.0], first, taken)


@pytest.mark.quick(8)
@pytest.mark.parametrize(
    "case",
    [
        "last",
        "back",
        "repeated",
        "counted",
        "part",
        "unused",
        "filter",
        "size",
        "twice",
        "step",
        "branch",
        "entry",
    ],
)
@pytest.mark.parametrize("derived", [False, True])
def test_what_a_branch_reads_by_computed_sizes_is_there(case: str, derived: bool) -> None:
    """Whatever rewriting makes of it: it may read another tensor instead, or compute a size before the branch."""
    x, c, k = sj.vector("x"), sj.scalar("c"), sj.scalar("k", "int64")

    def run(**options: Any) -> sj.Node:
        return sj.scan(lambda h: h * 0.7 + c, outputs_info=c, n_steps=k % 3, **options)

    def entry(index: Any) -> sj.Node:
        return sj.cast(x[: k % 3][index], "int64") % 2

    def taken() -> sj.Node:
        return {
            "last": lambda: run()[-1],
            "back": lambda: run(go_backwards=True)[-1],
            "repeated": lambda: (sj.zeros_like(run()) + c)[-1],
            "counted": lambda: c * sj.arange(k % 3)[-1],
            "part": lambda: c * (x[: k % 3] * 2)[1],
            "unused": lambda: sj.where(True, c, x[: k % 3][1]),
            "filter": lambda: (c * x[: sj.cast(sj.filter(lambda v: v > c, x)[-1], "int64") % 2]).sum(),
            "size": lambda: (c * x[: entry(-1)]).sum(),
            "twice": lambda: (c * x[: entry(-1)][: entry(0)]).sum(),
            "step": lambda: sj.scan(lambda h: h * 0.5 + run()[-1], outputs_info=c, n_steps=2)[-1],
            "branch": lambda: sj.ifelse(c > 2, lambda: c, lambda: (c * x[: entry(-1)]).sum()),
            "entry": lambda: (c * x[: sj.cast(x[k], "int64") % 2]).sum(),
        }[case]()

    y = sj.ifelse(c > 0, taken, lambda: c * 3)
    y = sj.grad(y, c) if derived else y
    plain, compiled = (sj.function([x, c, k], y, mode=mode) for mode in ("reference", "emulate"))
    cases = itertools.product(([], [0.5], [0.5, 2.5, 3.5], [2.0, -3.0, 3.0]), (1.0, -1.0), (0, 1, 2))
    passed = [same(compiled, plain, *given) for given in cases]
    assert derived or not all(passed)


@pytest.mark.quick(24)
@pairwise(
    case=["last", "inside", "part", "shape", "known", "deeper", "deepest"],
    place=["graph", "step", "inner step", "last step", "branch"],
    derived=[False, True],
)
def test_a_size_that_only_the_compiler_knows_fits_where_the_branch_is_taken(
    case: str, place: str, derived: bool
) -> None:
    """The sum of no terms is 0, which the compiler finds out. So a branch has a row of no rows, which nobody takes."""
    x, c = sj.tensor((0,), name="x"), sj.scalar("c")
    count = sj.cast(sj.cumsum(x).sum(), "int64") % 4
    run = lambda: sj.scan(lambda h: h / 2, outputs_info=sj.ones(2) * c, n_steps=count)
    rows = run()
    taken = {
        "last": lambda k: rows[-1].sum() + k,
        "inside": lambda k: run()[-1].sum(),
        "part": lambda k: (sj.ones(3) * k)[:count][0],
        "shape": lambda k: sj.reshape(sj.concatenate([(sj.ones(3) * k)[:count], sj.ones(1)]), (2,)).sum(),
        "known": lambda k: rows[-1].sum(),
        "deeper": lambda k: sj.ifelse(k > 1, lambda: rows[-1].sum() * k, lambda: k / 2),
        "deepest": lambda k: sj.ifelse(
            k > 1, lambda: sj.ifelse(k > 1.2, lambda: run()[-1].sum() * k, lambda: k * 3), lambda: k / 2
        ),
    }[case]
    chosen = lambda k: sj.ifelse(count > 0 if case == "known" else k > 0, lambda: taken(k), lambda: k * 3)
    ks = sj.stack([c, c / 2, -c])
    y = {
        "graph": lambda: chosen(c),
        "step": lambda: sj.scan(chosen, sequences=ks).sum(),
        "inner step": lambda: sj.map(lambda j: sj.map(lambda k: chosen(j * k), ks).sum(), ks).sum(),
        "last step": lambda: sj.scan(
            lambda k, h: (h + chosen(k), sj.until(h > 1e9)), sequences=ks, outputs_info=sj.zeros(())
        )[-1],
        "branch": lambda: sj.ifelse(c > 0, lambda: sj.map(chosen, ks).sum(), lambda: c),
    }[place]()
    y = sj.grad(y, c) if derived else y
    plain, compiled = (sj.function([x, c], y, mode=mode) for mode in ("reference", "emulate"))
    for value in (-1.0, 0.5, 2.0):
        same(compiled, plain, [], value)
