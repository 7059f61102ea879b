"""`print_` and `assert_`: what is printed and in which order, what fails and where, in every mode."""

import re

import numpy as np
import pytest

import scanjit as sj

HERE = __file__
MODES = ("reference", "emulate")


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.fixture
def printed(capsys):
    """What calls of a function with each mode print: the same lines, but for rounding."""

    def lines(inputs, outputs, *args, modes=MODES):
        found = []
        for mode in modes:
            f = sj.function(inputs, outputs, mode=mode)
            capsys.readouterr()
            f(*args)
            found.append(re.sub(r"(\.\d{9})\d+", r"\1", capsys.readouterr().out).splitlines())
        assert all(other == found[0] for other in found)
        return found[0]

    return lines


def test_values_are_printed_and_passed_on(capsys, mode):
    x = sj.vector("x")
    f = sj.function([x], sj.print_(x + 1, "sum").sum() + sj.print_(x * 2).sum(), mode=mode)
    assert f([1.0, 2.0]) == 11
    assert capsys.readouterr().out.splitlines() == ["sum: [2. 3.]", "x * 2.0: [2. 4.]"]


def test_every_step_of_a_loop_is_printed_with_its_number(printed):
    x = sj.vector("x")
    h = sj.scan(lambda v, h: sj.print_(h + sj.print_(v, "v"), "h"), x, sj.constant(0.0), go_backwards=True, name="sum")
    lines = printed([x], sj.print_(h[-1], "last"), [1.0, 2.0], modes=(*MODES, "numba"))
    assert lines == [
        "v, in step 0 of scan 'sum': 2.0",
        "h, in step 0 of scan 'sum': 2.0",
        "v, in step 1 of scan 'sum': 1.0",
        "h, in step 1 of scan 'sum': 3.0",
        "last: 3.0",
    ]


def test_loops_that_end_early_print_what_ran(printed):
    x = sj.vector("x")
    h = sj.scan(lambda v, h: (sj.print_(h + v, "h"), sj.until(h + v > 3)), x, sj.constant(0.0), name="sum")
    lines = printed([x], h, [1.0, 3.0, 5.0, 7.0])
    assert lines == ["h, in step 0 of scan 'sum': 1.0", "h, in step 1 of scan 'sum': 4.0"]


def test_loops_in_loops_and_branches_print_what_ran(printed):
    x = sj.matrix("x")

    def outer(row):
        h = sj.scan(lambda v, h: sj.print_(h + v, "h"), row, sj.constant(0.0), name="inner")[-1]
        return sj.ifelse(h > 3.5, lambda: sj.print_(h * 10, "large"), lambda: sj.print_(-h, "small"))

    y = sj.scan(outer, x, name="outer")
    around = [f", in step {i} of scan 'outer'" for i in (0, 1)]
    assert printed([x], y, np.array([[1.0, 1], [3.0, 1]])) == [
        f"h, in step 0 of scan 'inner'{around[0]}: 1.0",
        f"h, in step 1 of scan 'inner'{around[0]}: 2.0",
        f"small{around[0]}: -2.0",
        f"h, in step 0 of scan 'inner'{around[1]}: 3.0",
        f"h, in step 1 of scan 'inner'{around[1]}: 4.0",
        f"large{around[1]}: 40.0",
    ]


def test_gradients_pass_and_print_nothing_twice(printed):
    x, w = sj.vector("x"), sj.scalar("w")
    h = sj.scan(lambda v, h: sj.tanh(sj.print_(w * h + v, "h")), x, sj.constant(0.5))
    plain = sj.scan(lambda v, h: sj.tanh(w * h + v), x, sj.constant(0.5))
    cost = (h * h).sum()
    assert len(printed([x, w], [cost, *sj.grad(cost, [x, w])], [1.0, 2.0, 3.0], 0.5)) == 3
    assert len(printed([x, w], sj.grad(cost, w), [1.0, 2.0, 3.0], 0.5)) == 3
    f = sj.function([x, w], [sj.grad(cost, w), sj.grad((plain * plain).sum(), w), sj.jvp(cost, w, w)], mode="emulate")
    a, b, c = f([1.0, 2.0, 3.0], 0.5)
    np.testing.assert_allclose([a, c * 2], [b, b])
    on = sj.scalar("on", dtype="bool")
    y = sj.ifelse(on, lambda: sj.print_(sj.exp(w), "e") ** 2, lambda: w)
    assert printed([w, on], [y, sj.grad(y, w)], 0.0, True) == ["e: 1.0"]
    assert printed([w, on], [y, sj.grad(y, w)], 0.0, False) == []


def test_batches_are_printed_as_a_whole_and_shared_values_once(printed):
    x, on = sj.matrix("x"), sj.scalar("on", dtype="bool")
    assert printed([x], sj.vmap(lambda row: sj.print_(row.sum(), "sum"))(x), np.ones((3, 2))) == ["sum: [2. 2. 2.]"]
    h = sj.print_(x.sum(), "h")
    assert printed([x, on], [h, sj.ifelse(on, h * 2, h)], np.ones((1, 1)), True) == ["h: 1.0"]


def error_of(f, *args):
    with pytest.raises(sj.AssertError) as caught:
        f(*args)
    assert isinstance(caught.value, AssertionError) and HERE in str(caught.value)
    return str(caught.value).splitlines()


def test_conditions_are_checked_and_what_is_asserted_is_passed_on(mode):
    x, count = sj.vector("x"), sj.shared(0.0, "count")
    y = sj.sqrt(sj.assert_(x >= 0, x, "no root"))
    f = sj.function([x], y, updates={count: count + 1}, mode=mode)
    np.testing.assert_array_equal(f([4.0, 9.0]), [2, 3])
    assert error_of(f, [4.0, -1.0])[:2] == ["no root", "  got:      x >= 0.0 is false"]
    assert f([]).shape == (0,) and count.get_value() == 2
    bare = sj.function([x], sj.assert_(x.sum() > 0, x), mode=mode)
    assert error_of(bare, [-1.0])[0] == "an assertion does not hold"


@pytest.mark.parametrize("mode", [*MODES, "numba"])
def test_the_step_that_fails_is_named(mode):
    x = sj.vector("x")
    h = sj.scan(lambda v, h: sj.assert_(h + v < 4, h + v, "too much"), x, sj.constant(0.0), name="sum")
    f = sj.function([x], h, mode=mode)
    assert f([1.0, 2.0]).tolist() == [1, 3]
    first, got, where = error_of(f, [1.0, 2.0, 3.0, -5.0])
    assert first == "too much, in step 2 of scan 'sum'" and got.endswith("h + x[t] < 4.0 is false")
    assert where.startswith("  at: ")


def test_steps_and_branches_that_do_not_run_do_not_fail(mode):
    x, on = sj.vector("x"), sj.scalar("on", dtype="bool")
    h = sj.scan(lambda v, h: (sj.assert_(v > 0, h + v), sj.until(h + v > 2)), x, sj.constant(0.0))
    f = sj.function([x], h, mode=mode)
    assert f([1.0, 2.0, -1.0]).tolist() == [1, 3]
    error_of(f, [1.0, -2.0, -1.0])
    y = sj.ifelse(on, sj.assert_(x > 0, x, "then"), sj.assert_(x < 0, x, "else"))
    g = sj.function([x, on], [y, sj.grad(y.sum(), x)], mode=mode)
    g([1.0], True), g([-1.0], False)
    assert error_of(g, [-1.0], True)[0] == "then" and error_of(g, [1.0], False)[0] == "else"
    only = sj.function([x, on], sj.grad((y * y).sum(), x), mode=mode)
    assert error_of(only, [-1.0], True)[0] == "then"


def test_gradients_of_loops_check_what_the_forward_loop_checks(mode):
    x, w = sj.vector("x"), sj.scalar("w")
    h = sj.scan(lambda v, h: sj.assert_(h < 10, sj.tanh(w * h + v), "h"), x, sj.constant(0.5))
    f = sj.function([x, w], sj.grad((h * h).sum(), w), mode=mode)
    g = sj.function([x, w], sj.grad((sj.scan(lambda v, h: sj.tanh(w * h + v), x, sj.constant(0.5)) ** 2).sum(), w))
    np.testing.assert_allclose(f([1.0, 2.0], 0.5), g([1.0, 2.0], 0.5))
    low = sj.scan(lambda v, h: sj.assert_(h < 0.9, sj.tanh(w * h + v), "h"), x, sj.constant(0.5))
    text = error_of(sj.function([x, w], sj.grad((low * low).sum(), w), mode=mode), [3.0, 2.0], 0.5)
    assert text[0].startswith("h, in step 1 of the scan at ")
    sj.check_grad(lambda x: sj.assert_(x > 0, x * x * x), [np.array([1.0, 2.0])], order=2)


def test_batches_of_conditions(mode):
    x, ok = sj.matrix("x"), sj.vector("ok", dtype="bool")
    y = sj.vmap(lambda row, ok: sj.assert_(ok, row, "row").sum())(x, ok)
    f = sj.function([x, ok], y, mode=mode)
    assert f(np.ones((2, 3)), [True, True]).tolist() == [3, 3]
    assert error_of(f, np.ones((2, 3)), [True, False])[0] == "row"


def test_with_check_finite_both_work_too(capsys):
    x = sj.vector("x")
    f = sj.function([x], sj.print_(sj.assert_(x > 0, x, "positive"), "x"), mode="emulate")
    sj.config.check_finite = True
    f([1.0])
    assert capsys.readouterr().out == "x: [1.]\n"
    assert error_of(f, [-1.0])[0] == "positive"


def test_errors_of_the_arguments():
    x = sj.vector("x")
    with pytest.raises(sj.DtypeError, match="the condition of assert_, its first argument") as caught:
        sj.assert_(x, x > 0)
    assert HERE in str(caught.value)
    for call in (lambda: sj.print_(x, 3), lambda: sj.assert_(x > 0, x, x)):
        with pytest.raises(sj.ArgumentError, match="the message is a text"):
            call()


def checked(v):
    return sj.assert_(v < 1.5, v)


@pytest.mark.parametrize("check", [sj.print_, checked])
def test_a_while_loop_without_a_limit(mode, check, capsys):
    """Memory is planned before a loop runs; how many steps this one has is known after."""
    x = sj.scalar("x")
    f = sj.function([x], sj.while_loop(lambda z: z < x, lambda z: check(z) + 1, 0.0), mode=mode)
    assert f(2.0) == 2
    assert f(0.0) == 0
    if check is sj.print_:
        lines = capsys.readouterr().out.splitlines()
        assert lines == ["h, in step 0 of scan 'while_loop': 0.0", "h, in step 1 of scan 'while_loop': 1.0"]
    else:
        with pytest.raises(sj.AssertError, match="in step 2 of scan 'while_loop'"):
            f(3.0)


COMPUTED = {
    "while_loop": lambda n: sj.while_loop(lambda z: z < n, lambda z: checked(z) + 1.0, 0.0),
    "scan": lambda n: sj.scan(lambda z: checked(z) + 1.0, outputs_info=0.0, n_steps=n).sum(),
    "branch": lambda n: sj.ifelse(
        n > 1, lambda: sj.while_loop(lambda z: z < n, lambda z: checked(z) + 1.0, 0.0), lambda: -1.0
    ),
    "branch inside": lambda n: sj.while_loop(
        lambda z: z < n, lambda z: sj.ifelse(z > 0.5, lambda: checked(z), lambda: z) + 1.0, 0.0
    ),
    "loop inside": lambda n: sj.while_loop(
        lambda z: z < n, lambda z: z + 1 + 0 * sj.scan(lambda k: checked(k * z), sj.arange(2)).sum(), 0.0
    ),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_assertions_in_loops_whose_number_of_steps_a_step_computes(name, mode):
    x = sj.lvector("x")
    f = sj.function([x], sj.scan(COMPUTED[name], sequences=x, name="outer"), mode=mode)
    expected = [-1, -1, 2] if name == "branch" else [1, 0, 3 if name == "scan" else 2]
    assert f([1, 0, 2]).tolist() == expected
    text = r"in (a step|step \d) of .*in step 1 of scan 'outer'\n  got: .*h < 1\.5 is false"
    with pytest.raises(sj.AssertError, match=text):
        f([1, 3, 0])


def test_an_assertion_in_a_loop_without_a_limit_in_a_branch(mode):
    x = sj.scalar("x")
    f = sj.function([x], sj.ifelse(x > 1, lambda: COMPUTED["while_loop"](x), lambda: x), mode=mode)
    assert (f(1.0), f(2.0)) == (1, 2)
    with pytest.raises(sj.AssertError, match=r"in (a step|step 2) of scan 'while_loop'"):
        f(3.0)


def test_what_cannot_be_printed_is_refused():
    x = sj.lvector("x")
    loop = sj.scan(lambda n: sj.while_loop(lambda z: z < n, lambda z: sj.print_(z) + 1.0, 0.0), sequences=x)
    array = sj.scan(lambda n: sj.print_(sj.arange(n)).sum(), sequences=x)
    for wrong in (loop, array):
        with pytest.raises(
            sj.NotSupportedError, match=r"prints no more steps, .*(?s:.*)mode=\"reference\" prints them"
        ):
            sj.function([x], wrong, mode="emulate")
