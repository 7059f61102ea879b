"""Carries of which a step changes some elements: changed where they lie, if nobody reads the old ones after that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.rewrite import run as rewrite
from scanjit.runtime import host
from scanjit.schedule.nests import Fetch, Nest, TimeLoop
from scanjit.schedule.pipeline import schedule

I, J, X = (sj.tensor(("T",), dtype, name) for dtype, name in (("int64", "i"), ("int64", "j"), ("float64", "x")))
P, Q = (sj.tensor(("n",), "float64", name) for name in "pq")
INPUTS = [I, J, X, P, Q]


def ratings(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """A game changes two ratings by what both were before it."""
    change = 0.3 * (x - 1 / (1 + sj.exp(p[j] - p[i])))
    return p[i].inc(change)[j].inc(-change), q


def exchanged(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """Two elements change places; what both were together is stored."""
    a, b = p[i], p[j]
    return p[i].set(b)[j].set(a), q + x, a - b


def between(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """Each carry is changed by what the other was; stored are an element before and one after the change."""
    new = p[i].inc(0.1 * q[j])
    return new, q[j].set(p[i] * x), p[j], new[i]


def summed(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """The change needs all elements, and one at a known place."""
    return p[i].set(0.1 * p.sum() + x), q[1].set(q[0] * 0.5 + q[2])


def stopped(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """The loop may end early."""
    return [p[i].inc(x), q[j].inc(p[j])], sj.until(p[i] > 3.0)


def several(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """An array of indices, some of them equal."""
    at = sj.stack([i, j, i])
    return p[at].inc(0.1 * p[at] + x), q


def chosen_later(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """Where the old carry is read depends on the new one."""
    new = p[i].inc(x)
    return new, q[j].inc(p[sj.where(new[j] > 0, 1, 0)])


def passed_on(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """The old carry is the other one after the step."""
    return p[i].inc(x + q[j]), p


def shifted(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """What is written is a part of the carry."""
    return p[1:].set(p[:-1])[0].set(x), q[i].set(q[j])


def read_between(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """A value is read between two changes."""
    first = p[i].inc(x)
    return first[j].inc(first.sum()), q


def five(p: Any, i: Any) -> slice:
    """The places of five neighbours."""
    at = i % (p.shape[0] - 5)
    return slice(at, at + 5)


def scaled(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """Each element is changed by what it was itself."""
    return p[five(p, i)].set(0.5 * p[five(p, i)] + x), q


def scaled_and_added(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """The same, where the change is added."""
    return p[five(p, i)].inc(x * p[five(p, i)]), q[:2].set(sj.sin(q[:2]))


def scaled_and_shown(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """What the elements were is stacked, and some of it is read elsewhere."""
    old = p[five(p, i)]
    return p[five(p, i)].set(0.5 * old + x), q[1].set(old[0] - old[1]), sj.exp(old)


def from_others(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """The elements that are read may overlap with those that are changed."""
    return p[five(p, i)].set(0.5 * p[five(p, j)] + x), q


def from_both(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """An element is changed by what it was, and by another one."""
    return p[five(p, i)].set(0.5 * p[five(p, i)] + p[five(p, j)][::-1]), q


def one_from_another(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """One element is changed by what two elements were: all are read before one is written."""
    return p[i].inc(0.1 * (x + 0.9 * p[j] - p[i])), q


def flipped(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """Five neighbours are put in the opposite order."""
    return p[five(p, i)].set(p[five(p, i)][::-1]), q


def twice(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """Several may be one element: the last one of them counts."""
    at = sj.stack([i, j, i])
    return p[at].set(0.5 * p[at] + sj.arange(3.0)), q


def smoothed(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """Every element is changed by its neighbours, and then the first one is another number."""
    return p[1:-1].inc(0.1 * (p[2:] - 2.0 * p[1:-1] + p[:-2]))[0].set(x), q


def read_by_a_loop(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """Inner loops read one carry step by step, and begin with the other."""
    total = sj.scan(lambda each, total: sj.tanh(total + each), p, x)[-1]
    raised = sj.scan(lambda k, q: q[k].inc(p[k]), sj.arange(3), q)[-1]
    return p[i].set(total), q[j].set(raised.sum())


def searched(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """The place of the change is found by a loop that may end early."""
    at = sj.while_loop(lambda at: (p[at] > 0.5) & (at < 4), lambda at: at + 1, i % 3)
    return p[at].set(x), q


def read_in_a_branch(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """One branch reads all of the carry, the other is an element of it."""
    return p[i].set(sj.ifelse(x > 0, sj.tanh(p.sum()), p[j])), q[i].set(sj.ifelse(x > 0.5, p, 2.0 * p)[j])


def factored(i: Any, j: Any, x: Any, p: Any, q: Any) -> Any:
    """The factors of a matrix of elements."""
    left, right = sj.qr(sj.reshape(p[:4], (2, 2)))
    return p[i].set(left[0, 1] + right[0, 1]), q


STEPS = {  # how many carries are changed where they lie
    ratings: 1,
    exchanged: 1,
    between: 2,
    summed: 2,
    stopped: 2,
    several: 1,
    chosen_later: 1,
    passed_on: 0,
    shifted: 1,
    read_between: 0,
    scaled: 1,
    scaled_and_added: 2,
    scaled_and_shown: 2,
    from_others: 1,
    from_both: 1,
    one_from_another: 1,
    flipped: 1,
    twice: 1,
    smoothed: 1,
    read_by_a_loop: 2,
    searched: 1,
    read_in_a_branch: 2,
    factored: 1,
}


def results(step: Any) -> list[sj.Node]:
    """The last carries, and what is stacked."""
    stacked = {exchanged: 1, between: 2, scaled_and_shown: 1}.get(step, 0)
    made = sj.scan(step, sequences=[I, J, X], outputs_info=[P, Q, *[None] * stacked])
    return [made[0][-1], made[1][-1], *made[2:]]


def values(steps: int, size: int) -> list[np.ndarray[Any, Any]]:
    """Values for `INPUTS`."""
    rng = np.random.default_rng(steps + size)
    indices = (rng.integers(-size, size, steps) for _ in range(2))
    return [*indices, *(rng.standard_normal(n) for n in (steps, size, size))]


@pytest.mark.quick(5)
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_changed_where_they_lie(step: Any) -> None:
    made = results(step)
    program = schedule(INPUTS, rewrite(made).outputs, host.target())
    inside = (each for statement in program.suite for each in statement.every())
    loop = next(each for each in inside if isinstance(each, TimeLoop))
    once = [buffer for buffer in set(loop.persistent) if buffer.shape[0] == 1]
    assert len(once) == STEPS[step]
    assert {buffer.kind for buffer in once} <= {"output"}  # the caller gets them as they are
    exact, run = (sj.function(INPUTS, made, mode=mode) for mode in ("reference", "emulate"))
    for steps, size in ((1, 8), (7, 6), (4, 300)):
        given = values(steps, size)
        for wanted, got in zip(exact(*given), run(*given), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-13)
        np.testing.assert_array_equal(given[3], values(steps, size)[3])


@pytest.mark.parametrize(
    ("step", "together"), [(scaled, True), (scaled_and_added, True), (one_from_another, True), (from_others, False)]
)
def test_what_is_changed_by_itself_is_read_and_written_in_one_nest(step: Any, together: bool) -> None:
    program = schedule(INPUTS, rewrite(results(step)).outputs, host.target())
    nests = [each for statement in program.suite for each in statement.every() if isinstance(each, Nest)]
    changed = [nest for nest in nests if any(store.indices for store in nest.stores)]
    read = [value for nest in changed for value in nest.values if isinstance(value, Fetch)]
    assert len(changed) == 1 and bool(read) == together


@pytest.mark.parametrize("step", [ratings, summed, smoothed])
def test_values_that_nobody_reads_are_not_stored(step: Any) -> None:
    program = schedule(INPUTS, rewrite(results(step)).outputs, host.target())
    refs = [ref for statement in program.suite for each in statement.every() for ref in each.refs()]
    written = {buffer for buffer, _, written in refs if written and buffer.kind == "temporary"}
    assert written <= {buffer for buffer, _, written in refs if not written}


def test_compiled_with_gradients() -> None:
    steps = (ratings, between, summed, scaled, scaled_and_shown, from_both, one_from_another, twice, read_by_a_loop)
    made = [node for step in steps for node in results(step)]
    total = sum((node**2).sum() for node in made)
    wanted = [*made, *sj.grad(total, [X, P, Q])]
    exact, run = (sj.function(INPUTS, wanted, mode=mode) for mode in ("reference", "numba"))
    for steps, size in ((40, 6), (9, 300)):
        given = values(steps, size)
        for reference, got in zip(exact(*given), run(*given), strict=True):
            np.testing.assert_allclose(got, reference, rtol=1e-9)


def test_an_index_outside_is_an_error() -> None:
    run = sj.function(INPUTS, results(ratings), mode="emulate")
    given = values(5, 4)
    given[1][3] = 4
    with pytest.raises(sj.errors.OutOfBoundsError, match=r"index 4 .* in step 3"):
        run(*given)


A, B = (sj.tensor(("P", size), "float64", size.lower()) for size in "NM")
S = sj.tensor((), "int64", "s")


def rolled(a: Any, b: Any, s: Any, p: Any) -> Any:
    """Products are added where their rows come to lie."""
    places = (sj.arange(a.shape[1]) - s) % a.shape[1]
    return sj.zeros((a.shape[1], b.shape[1]), "float64")[places].inc(sj.einsum("pn,pm->nm", a, b))


def rolled_sums(a: Any, b: Any, s: Any, p: Any) -> Any:
    """Sums are, and each is computed where it is added."""
    places = (sj.arange(a.shape[1]) - s) % a.shape[1]
    return sj.zeros((a.shape[1], b.shape[1]), "float64")[places].inc((a[:, :, None] * b[:, None]).sum(0))


def scaled_and_multiplied(a: Any, b: Any, s: Any, p: Any) -> Any:
    """Some rows are changed by what they were themselves, and by products."""
    n = a.shape[1]
    return p[s : s + n].set(0.5 * p[s : s + n] + sj.einsum("pn,pm->nm", a, b))


@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("step", [rolled, rolled_sums, scaled_and_multiplied], ids=lambda step: step.__name__)
def test_no_row_of_a_tile_is_added_twice(step: Any, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Register tiles of products have several rows. Where a matrix ends, rows of the last tile are computed again."""
    monkeypatch.setenv("SCANJIT_VECTOR_BYTES", str(8 * lanes))
    before = sj.tensor(("K", "M"), "float64", "p")
    made = step(A, B, S, before)
    exact, run = (sj.function([A, B, S, before], made, mode=mode) for mode in ("reference", "emulate"))
    rng = np.random.default_rng(0)
    for n, m in ((2, 4), (5, 3), (9, 20)):
        given = (rng.standard_normal((2, n)), rng.standard_normal((2, m)), np.int64(1), rng.standard_normal((n + 2, m)))
        np.testing.assert_allclose(run(*given), exact(*given), rtol=1e-12, atol=1e-13)


@pytest.mark.skipif(not host.target().is_x86, reason="others have no such instructions")
@pytest.mark.parametrize("op", ["where", "maximum"])
def test_a_choice_to_keep_elements_stores_all_of_them(op: str) -> None:
    """LLVM made masked stores of it, which take long and keep the next step waiting."""

    def step(i: Any, j: Any, h: Any) -> Any:
        return sj.where(sj.equal(h, h[i]), h[j], h) if op == "where" else sj.maximum(h, h[i] - h[j])

    f, reference = (
        sj.function([I, J], sj.scan(step, [I, J], np.arange(16.0))[-1], mode=m) for m in ("numba", "reference")
    )
    assert "maskmov" not in sj.dprint(f, "str", stage="assembly")
    i, j = np.random.default_rng(0).integers(0, 16, (2, 9))
    np.testing.assert_array_equal(f(i, j), reference(i, j))


@pytest.mark.parametrize("mode", ["numba", "emulate"])
def test_carries_that_swap_elements(mode: Any) -> None:
    """Neither can be changed before the other; three in a circle."""
    two = lambda s, w: (s[-1].set(w[0]), w[0].set(s[-1]))
    three = lambda s, w, v: (s[1].set(w[0]), w[0].set(v[-1]), v[-1].set(s[1]))
    n, starts = sj.scalar("n", "int64"), [sj.vector(name, "float64") for name in "abc"]
    outputs = [found[-1] for found in sj.scan(two, None, starts[:2], n_steps=n)]
    outputs += [found[-1] for found in sj.scan(three, None, starts, n_steps=n)]
    f, reference = (sj.function([n, *starts], outputs, mode=each) for each in (mode, "reference"))
    for steps in (1, 2, 4):
        given = [np.arange(5.0) + 10 * i for i in range(3)]
        for got, wanted in zip(f(steps, *given), reference(steps, *given), strict=True):
            np.testing.assert_array_equal(got, wanted)
