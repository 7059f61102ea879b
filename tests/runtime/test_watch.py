"""Watching runs: `config.check_finite` names the first NaN or infinity, `on_step` sees each step."""

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime.watch import Step

HERE = __file__


@pytest.fixture
def checked() -> None:
    sj.config.check_finite = True


def error_of(f, *args) -> str:
    with pytest.raises(sj.NonFiniteError) as caught:
        f(*args)
    assert isinstance(caught.value, FloatingPointError)
    assert HERE in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_the_first_is_named_with_its_formula_step_position_and_inputs(checked, mode):
    x, count = sj.matrix("x"), sj.shared(1.0, "count")
    y = sj.scan(lambda row, h: sj.log(row + h), x, sj.zeros(2), name="cell")
    f = sj.function([x], y.sum(), updates={count: count + 1}, mode=mode)
    given = np.full((4, 2), 3.0)
    given[2, 1] = -9.0  # log(-9 + log(3 + log 3))
    h = np.log(3 + np.log(3.0))
    text = error_of(f, given)
    assert text.splitlines()[0] == "the first NaN is made by log, in step 2 of scan 'cell'"
    assert f"nan at [1] of log(x[t] + h), made of {h - 9}" in text
    assert count.get_value() == 1.0
    given[2, 1] = 3.0
    assert np.isfinite(f(given)) and count.get_value() == 2.0


def test_values_that_no_result_shows_are_found_too(checked):
    x = sj.vector("x")
    f = sj.function([x], sj.where(x > 0, sj.log(x), 0.0), mode="emulate")
    assert "-inf at [1] of log(x), made of 0.0" in error_of(f, [1.0, 0.0])
    sj.config.check_finite = "nan"
    np.testing.assert_array_equal(f([1.0, 0.0]), [0.0, 0.0])
    assert "nan at [0] of log(x), made of -1.0" in error_of(f, [-1.0, 0.0])


def test_constants_may_be_infinite_and_what_is_made_of_them_but_not_nan(checked):
    x = sj.vector("x")
    mask = sj.where(x > 0, x, -np.inf)
    f = sj.function([x], [sj.exp(mask), mask.max()], mode="reference")
    assert f([1.0, -1.0])[1] == 1.0
    text = error_of(sj.function([x], mask - mask, mode="reference"), [1.0, -1.0])
    assert "the first NaN is made by sub" in text and "made of -inf, -inf" in text


def test_arguments_and_shared_variables_are_looked_at(checked):
    x, w = sj.vector("x"), sj.shared(np.inf, "w")
    assert "argument x is not finite" in error_of(sj.function([x], x, mode="reference"), [1.0, np.nan])
    assert "the shared variable w is not finite" in error_of(sj.function([x], x * w, mode="reference"), [1.0])


def test_steps_of_nested_loops_and_of_gradients_are_all_named(checked):
    x = sj.tensor3("x")
    y = sj.scan(lambda rows: sj.scan(lambda r: sj.sqrt(r), rows, name="inner"), x, name="outer")
    given = np.ones((2, 3, 2))
    given[1, 2, 0] = -4
    text = error_of(sj.function([x], y, mode="reference"), given)
    assert "made by sqrt, in step 2 of scan 'inner', in step 1 of scan 'outer'" in text and "sqrt(x[t][s])" in text
    given[1, 2, 0] = 0
    text = error_of(sj.function([x], sj.grad(y.sum(), x), mode="reference"), given)
    assert "in step 0 of scan 'inner.grad', in step 0 of scan 'outer.grad'" in text and "inf at [0]" in text


def test_the_setting_is_checked():
    for value in (1, "inf", None):
        with pytest.raises(sj.ArgumentError, match=r"the value of config\.check_finite is not valid"):
            sj.config.check_finite = value
    assert sj.config.check_finite is False


# ---- steps -----------------------------------------------------------------------------------------------------------


def test_each_step_is_seen_with_what_it_was_given_and_made():
    x, a = sj.vector("x"), sj.scalar("a")
    steps: list[Step] = []
    y = sj.scan(lambda row, h: ((a * h + row), sj.until(row < 0)), x, sj.constant(1.0), go_backwards=True, name="decay")
    f = sj.function([x, a], y, mode="reference", on_step=steps.append)
    f([4.0, -2.0, 3.0, 5.0], 0.5)
    assert [(s.number, s.row) for s in steps] == [(0, 0), (1, 1), (2, 2)] and steps[0].scan == "decay"
    assert [s.carries for s in steps] == [[1.0], [5.5], [5.75]]
    assert [s.new_carries for s in steps] == [s.outputs for s in steps] == [[5.5], [5.75], [0.875]]
    assert [s.rows for s in steps] == [[5.0], [3.0], [-2.0]] and steps[0].constants == [0.5]
    assert [s.stop for s in steps] == [False, False, True] and HERE in steps[0].where
    assert repr(steps[2]).splitlines()[1:] == [
        "  row 0: -2.",
        "  carry 0: 5.75 -> 0.875",
        "  constant 0: 0.5",
        "  output 0: 0.875",
        "  the last step, by its condition",
    ]


def test_steps_of_loops_inside_come_first_and_large_arrays_are_shortened():
    x = sj.matrix("x")
    seen: list[tuple[str, int, tuple[int, ...]]] = []
    y = sj.scan(lambda row: sj.scan(lambda v: v * 2, row, name="inner"), x, name="outer")
    big: list[str] = []

    def watch(step: Step) -> None:
        seen.append((step.scan, step.number, step.outer))
        big.append(repr(step))

    sj.function([x], y, mode="reference", on_step=watch)(np.ones((2, 2)))
    inner = [("inner", 0), ("inner", 1)]
    assert seen == [(*i, (n,)) for n in (0, 1) for i in inner][:2] + [("outer", 0, ())] + [
        ("inner", 0, (1,)),
        ("inner", 1, (1,)),
        ("outer", 1, ()),
    ]
    assert big[3].startswith("step 0 of inner, in step 1 of the loop around (")
    sj.function([x], y, mode="reference", on_step=watch)(np.ones((1, 70)))
    assert "  row 0: float64(70,) from 1.0 to 1.0" in big[-1]


def test_only_the_reference_interpreter_is_watched():
    x = sj.vector("x")
    with pytest.raises(sj.ArgumentError, match="only the reference interpreter can be watched") as caught:
        sj.function([x], x, on_step=print)
    assert 'pass mode="reference" too' in str(caught.value) and HERE in str(caught.value)
