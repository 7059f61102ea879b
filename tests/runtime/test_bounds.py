"""An index out of bounds is named: its value, the axis, its size, and in a loop the step."""

from __future__ import annotations

import itertools
import types
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.runtime import bounds

ROW, MATRIX = np.arange(3.0), np.ones((2, 3))


def arguments() -> tuple[sj.Node, sj.Node, sj.Node, sj.Node]:
    return sj.vector("w"), sj.matrix("m"), sj.scalar("i", "int64"), sj.tensor(("K",), "int64", "at")


def visited(w: sj.Node, at: sj.Node) -> Any:
    return sj.scan(lambda j, h: sj.tanh(h + w[j]), at, 0.0)


def nested(w: sj.Node, at: sj.Node) -> Any:
    return sj.scan(lambda j: sj.scan(lambda k, h: h * w[j + k], sj.arange(2), 1.0)[-1], at, name="outer")


CASES = {
    "one": (lambda w, m, i, at: w[i], 7, [0], "index 7", "axis 0", "size 3"),
    "from the end": (lambda w, m, i, at: w[i], -9, [0], "index -9", "axis 0", "size 3"),
    "several": (lambda w, m, i, at: w[at] * 2, 0, [0, -3, 5], "index 5", "axis 0", "size 3"),
    "columns": (lambda w, m, i, at: m[:, at], 0, [0, 4], "index 4", "axis 1", "size 3"),
    "rows and columns": (lambda w, m, i, at: m[i, at], 1, [0, 3], "index 3", "axis 1", "size 3"),
    "set": (lambda w, m, i, at: w[i].set(0.0), 3, [0], "index 3", "axis 0", "size 3"),
    "inc": (lambda w, m, i, at: w[at].inc(1.0), 0, [1, 8], "index 8", "axis 0", "size 3"),
    "along": (lambda w, m, i, at: sj.take_along_axis(m, at[:, None], 1), 0, [1, 6], "index 6", "axis 1", "size 3"),
    "gradient": (lambda w, m, i, at: sj.grad((w[at] ** 2).sum(), w), 0, [1, 9], "index 9", "axis 0", "size 3"),
    "known": (lambda w, m, i, at: w[7], 0, [0], "index 7", "axis 0", "there are 3"),
    "loop": (lambda w, m, i, at: visited(w, at), 0, [1, 2, 5, 0], "index 5", "size 3", "in step 2 of the scan"),
    "gradient of a loop": (
        lambda w, m, i, at: sj.grad(visited(w, at).sum(), w), 0, [1, 5, 0], "index 5", "size 3", "in step 1 of",
    ),
    "inside": (lambda w, m, i, at: nested(w, at), 0, [0, 2], "index 3", "in step 1 of", "in step 1 of scan 'outer'"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_error_names_the_index(case: str) -> None:
    make, i, at, *words = CASES[case]
    inputs = arguments()
    for mode in ("reference", "emulate", *(["numba"] if case in ("one", "loop", "inc") else [])):
        f = sj.function(list(inputs), make(*inputs), mode=mode)
        with pytest.raises(sj.OutOfBoundsError) as caught:
            f(ROW, MATRIX, i, np.array(at))
        assert all(word in str(caught.value) for word in words) and __file__ in str(caught.value), (mode, caught.value)


@pytest.mark.parametrize("make", [
    lambda: sj.constant(ROW)[7], lambda: sj.constant(ROW)[[0, 7]].set(1), lambda: sj.take(ROW, [[7]], 0),
    lambda: sj.constant(MATRIX)[:, 7], lambda: sj.take_along_axis(MATRIX, [[0], [7]], 1),
])  # fmt: skip
def test_an_index_that_is_known_is_an_error_at_once(make: Any) -> None:
    with pytest.raises(sj.OutOfBoundsError, match=r"index 7 is out of bounds for axis [01] with size 3"):
        make()


def test_a_run_that_is_too_long_for_the_reference_says_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SECONDS", -1.0)
    w, _, i, _ = arguments()
    total = sj.shared(0.0)
    f = sj.function([w, i], w[i], updates={total: total + 1}, mode="emulate")
    with pytest.raises(sj.OutOfBoundsError, match=r"an index of gather is out of bounds[\s\S]*mode='reference'"):
        f(ROW, 7)
    assert total.get_value() == 0


def test_a_machine_that_stops_the_process_for_a_while_hides_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.chain([0.0], itertools.repeat(3600.0))
    monkeypatch.setattr(bounds, "time", types.SimpleNamespace(monotonic=lambda: next(seconds)))
    w, _, i, _ = arguments()
    with pytest.raises(sj.OutOfBoundsError, match="index 7 is out of bounds for axis 0 with size 3"):
        sj.function([w, i], w[i], mode="emulate")(ROW, 7)


PROBED = {
    "one": (lambda w, at: w[sj.assert_(at[0] < 3, at[0], "small")], ""),
    "several": (lambda w, at: w[sj.assert_(at < w.shape[0], at, "small")], ""),
    "loop": (lambda w, at: sj.scan(lambda j: w[sj.assert_(j < 3, j, "small")], at), ", in step 1 of the scan"),
    "branch": (lambda w, at: sj.ifelse(w.sum() > 0, w[sj.assert_(at < 3, at, "small")], w[:2] * 0), ""),
}


@pytest.mark.parametrize("case", PROBED)
def test_an_assertion_about_the_index_comes_first(case: str) -> None:
    """Compiled code looks at assertions after a call. An index out of bounds ends the call before."""
    make, place = PROBED[case]
    w, _, _, at = arguments()
    for mode in ("reference", "emulate", *(["numba"] if case == "several" else [])):
        f = sj.function([w, at], make(w, at), mode=mode)
        with pytest.raises(sj.AssertError, match=f"^small{place}") as caught:
            f(ROW, np.array([9, 9] if case == "one" else [1, 9]))
        assert "is false" in str(caught.value), (mode, caught.value)


EMPTY = {
    "row": lambda e, z, i, at, none: e[i],
    "rows": lambda e, z, i, at, none: e[at],
    "rows of rows": lambda e, z, i, at, none: e[at[:, None]],
    "column": lambda e, z, i, at, none: z[:, i],
    "columns": lambda e, z, i, at, none: e.T[:, at],
    "two axes": lambda e, z, i, at, none: sj.stack([e, e], 1)[i, at],
    "an empty index beside a number": lambda e, z, i, at, none: sj.ones((3, 4))[none, i],
    "an empty index beside others": lambda e, z, i, at, none: sj.ones((3, 4))[none[:, None], at],
    "nothing of rows": lambda e, z, i, at, none: sj.ones((3, 4))[at, :0],
    "set": lambda e, z, i, at, none: e[at].set(2.0),
    "set a column": lambda e, z, i, at, none: z[:, i].set(2.0),
    "inc": lambda e, z, i, at, none: e[at].inc(2.0),
    "inc with an empty index": lambda e, z, i, at, none: sj.ones((3, 4))[none, i].inc(2.0),
    "take": lambda e, z, i, at, none: sj.take(e, at, axis=0),
    "along": lambda e, z, i, at, none: sj.take_along_axis(e, at[:, None], 0),
    "sums": lambda e, z, i, at, none: e[at].sum(1),
    "product": lambda e, z, i, at, none: e[at] @ sj.ones((e.shape[1], 2)),
    "gradient": lambda e, z, i, at, none: sj.grad((e[at] ** 2).sum(), e),
    "steps": lambda e, z, i, at, none: sj.scan(lambda k, h: sj.tanh(e[k] + h), at, sj.zeros(e.shape[1])),
    "steps that set": lambda e, z, i, at, none: sj.scan(lambda k, h: h[k].set(1.0), at, e),
    "examples": lambda e, z, i, at, none: sj.vmap(lambda k: e[k])(at),
}


@pytest.mark.parametrize("case", EMPTY)
def test_an_index_that_reads_nothing_may_be_out_of_bounds(case: str) -> None:
    """And it is an error as soon as there is an entry to read."""
    values = [np.zeros((3, 0)), np.zeros((0, 3)), np.int64(7), np.array([1, 9]), np.zeros(0, "int64")]
    more = [np.ones((3, 2)), np.ones((2, 3)), values[2], values[3], np.zeros(1, "int64")]
    found = []
    for unknown in (False, True):
        for mode in ("reference", "emulate", *(["numba"] if unknown and case in ("rows", "column", "inc") else [])):
            inputs = [sj.tensor((None,) * a.ndim if unknown else a.shape, str(a.dtype)) for a in values]
            f = sj.function(inputs, EMPTY[case](*inputs), mode=mode)
            found.append(f(*values))
            if unknown and case != "nothing of rows":
                with pytest.raises(sj.OutOfBoundsError):
                    f(*more)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0], strict=True)


def test_a_step_of_a_loop_does_not_ask_whether_the_loop_has_steps() -> None:
    at = sj.tensor(("K",), "int64", "at")
    for made in (sj.bincount(at, length=5), sj.zeros((5, at.shape[0]))[at, sj.arange(at.shape[0])].inc(1.0)):
        f = sj.function([at], made, mode="emulate")
        assert "0 < n" not in f.source
        with pytest.raises(sj.OutOfBoundsError, match="index 5"):
            f(np.array([1, 5]))
        assert f(np.zeros(0, "int64")).sum() == 0
        assert f(np.array([1, 4, 1])).sum() == 3


def test_prints_are_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    w, _, i, _ = arguments()
    f = sj.function([w, i], sj.print_(w, "w")[i], mode="emulate")
    with pytest.raises(sj.OutOfBoundsError, match="index 7"):
        f(ROW, 7)
    assert not capsys.readouterr().out
