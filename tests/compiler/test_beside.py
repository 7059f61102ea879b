"""Loops side by side: which are put there, that the numbers stay the same, and that their memory is apart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import scanjit as sj
from scanjit import types
from scanjit.config import config
from scanjit.schedule.cost import rates
from scanjit.schedule.cost.statements import Cost
from scanjit.schedule.memory.addresses import assign
from scanjit.schedule.nests import Beside
from scanjit.schedule.nests.steps import OwnRows
from scanjit.schedule.threads import sharing
from scanjit.schedule.threads.teams import MOST_TEAMS, Assignment, Team, Way, teams_for
from scanjit.schedule.threads.times import Work
from tests.fuzz.check import Config, agree

H = 5


def direction(x, w, r, backwards):
    """A tanh network over the rows of x, from the last to the first if `backwards`; rows in the order of x."""
    start = sj.zeros((x.shape[1], H), x.dtype)
    h = sj.scan(lambda a, h: np.tanh(a @ w + h @ r), x, start, go_backwards=backwards)
    return h[::-1] if backwards else h


def network(layers=1, gradient=True, columns=3):
    """Bidirectional layers: inputs, and outputs with gradients."""
    x = sj.tensor(("T", "B", columns), "float32", "x")
    inputs, y = [x], x
    for n in range(layers):
        rows = columns if n == 0 else 2 * H
        weights = [sj.tensor((k, H), "float32") for k in (rows, H, rows, H)]
        inputs += weights
        y = sj.concatenate([direction(y, *weights[:2], False), direction(y, *weights[2:], True)], axis=2)
    cost = (y * y).sum()
    return inputs, [y, cost, *(sj.grad(cost, inputs) if gradient else [])]


def arguments(inputs, T=6, B=3, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [tuple({"T": T, "B": B}.get(str(d), d) for d in node.type.shape) for node in inputs]
    return [(rng.standard_normal(shape) * 0.4).astype("float32") for shape in shapes]


def groups(f):
    return [s for stage in f.executable.stages for s in stage.program.suite if isinstance(s, Beside)]


def scans(inputs, outputs):
    """The number of loops in each group, of a function of these."""
    return [len(group.branches) for group in groups(sj.function(inputs, outputs, mode="emulate"))]


@pytest.fixture
def always_apart(monkeypatch):
    """Teams for all loops side by side, whatever they cost."""
    before = config.threads
    monkeypatch.setattr(rates, "MEETING", 1e9)
    monkeypatch.setattr(rates, "WAKING", 0.0)
    monkeypatch.setattr(rates, "LEAST_GAIN", 0.0)
    yield
    config.threads = before


# ---- which loops ---------------------------------------------------------------------------------------------------


def test_directions_and_their_gradients_are_side_by_side():
    assert scans(*network(1, gradient=False)) == [2]
    assert scans(*network(2)) == [2, 2, 2, 2]


def test_loops_that_are_made_again_in_stretches(always_apart):
    x, w, r = sj.tensor(("T", "B", H), "float32"), sj.tensor((H, H), "float32"), sj.tensor((H, H), "float32")
    start = sj.zeros((x.shape[1], H), "float32")
    last = [sj.scan(lambda a, h, u=u: np.tanh(a @ u + h @ r), x, start, checkpoint=2)[-1] for u in (w, w.T)]
    inputs, outputs = [x, w, r], sj.grad((last[0] * last[1]).sum(), [x, w, r])
    args = arguments(inputs)
    with Config(width=32, shared=True, threads=2).active():
        f = sj.function(inputs, outputs, mode="emulate")
        found = f(*args)
    assert [len(group.branches) for group in groups(f)] == [2, 2] and "recomputed" in f.explain()
    wanted = sj.function(inputs, outputs, mode="reference")(*args)
    assert all(agree(a, b) for a, b in zip(found, wanted, strict=True))


def test_loops_that_need_each_other_are_not():
    x, w, r = sj.tensor(("T", "B", H), name="x"), sj.tensor((H, H), name="w"), sj.tensor((H, H), name="r")
    one = direction(x, w, r, False)
    f = sj.function([x, w, r], direction(one, w, r, True), mode="emulate")
    assert not groups(f) and "no loops side by side" in f.explain()


def test_two_chains_of_loops():
    x, w, r = sj.tensor(("T", "B", H), name="x"), sj.tensor((H, H), name="w"), sj.tensor((H, H), name="r")
    first, second = direction(x, w, r, False), direction(x, r, w, True)
    assert scans([x, w, r], [direction(first, w, r, True), direction(second, r, w, False)]) == [2, 2]


def test_scalar_recurrences_are_loops_too():
    x, a = sj.vector("x"), sj.scalar("a")
    found = [sj.scan(lambda e, h, k=k: sj.tanh(h * a + e * k), x, 0.0) for k in (1.0, 2.0, 3.0)]
    assert scans([x, a], found) == [3]


def test_a_loop_that_may_end_early_stays_alone():
    x, w, r = sj.tensor(("T", "B", H), name="x"), sj.tensor((H, H), name="w"), sj.tensor((H, H), name="r")
    early = sj.scan(lambda s: (s @ r, sj.until(s.sum() > 40.0)), outputs_info=w, n_steps=50)
    assert scans([x, w, r], [early[-1], direction(x, w, r, False)]) == []


# ---- what they compute ---------------------------------------------------------------------------------------------


@pytest.mark.quick(3)
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("small", [False, True])
def test_in_turns_with_planned_memory(always_apart, threads, small):
    """Threads that change places after every nest, and memory in one workspace: what is shared by mistake is seen."""
    inputs, outputs = network(2)
    how = Config(width=32, shared=True, threads=threads, small=small)
    args = arguments(inputs)
    wanted = sj.function(inputs, outputs, mode="reference")(*args)
    with how.active():
        f = sj.function(inputs, outputs, mode="emulate")
        found = f(*args)
    assert all(agree(a, b) for a, b in zip(found, wanted, strict=True))
    if threads > 1:
        (sized,) = f.executable.stages[0].known.values()
        teams = sized.sharing.teams.values()
        assert all(assigned.teams for assigned in teams) and len(teams) == 4


def test_compiled_bits_do_not_depend_on_who_runs_what(always_apart, monkeypatch):
    inputs, outputs = network(1)
    f = sj.function(inputs, outputs)
    for seed, batch in enumerate((1, 4)):
        args = arguments(inputs, T=9, B=batch, seed=seed)
        results = []
        for threads, meeting in itertools.product((1, 2, 3, 5), (0.0, 1e9)):
            config.threads = threads
            monkeypatch.setattr(rates, "MEETING", meeting)
            f.executable.stages[0].forget()
            results.append(f(*args))
        for other in results[1:]:
            np.testing.assert_equal(results[0], other)


def test_only_the_threads_of_one_team_meet_at_a_place(always_apart, monkeypatch):
    """Loops forward and their gradients may have teams of other sizes. A thread that had been in one of these alone
    would wait for the others without end."""
    inputs, outputs = network(1)
    f, args = sj.function(inputs, outputs), arguments(inputs)
    config.threads = 1
    wanted = f(*args)
    (stage,) = f.executable.stages
    (sized,) = stage.known.values()
    sizes = itertools.cycle([(3, 2), (2, 3)])

    def of_other_sizes(works, way):
        first, second = next(sizes)
        return Assignment([Team(0, first), Team(first, second)], 1.0, 2.0)

    monkeypatch.setattr(sharing, "assignment", of_other_sizes)
    parts = [part for part in stage.layout.costs if part.first]
    numbers = sharing.sharing(parts, sized.number, Way(5), 2**20).numbers
    value = lambda dims: [numbers[types.as_atom(dim)] for dim in dims]
    teams = {
        (first, many, place)
        for part in parts
        for first, many, place in zip(value(part.first), value(part.many), value(part.place), strict=True)
    }
    assert teams == {(0, 3, 1), (3, 2, 2), (0, 2, 3), (2, 3, 4)}
    config.threads = 5
    stage.forget()
    np.testing.assert_equal(wanted, f(*args))


def test_teams_without_a_place_do_not_run_apart(always_apart):
    places = {Team(first, 2): first for first in range(1, MOST_TEAMS + 1)}
    assigned = Assignment([Team(0, 2), Team(2, 1)], 1.0, 2.0)
    assert sharing._with_places(assigned, dict(places)).teams is None
    del places[Team(1, 2)]
    assert sharing._with_places(assigned, places).teams == assigned.teams


def test_indices_out_of_bounds_are_reported_by_every_branch(always_apart):
    x, i, w = sj.tensor(("T", "B", H), name="x"), sj.tensor(("T",), "int64", "i"), sj.tensor((H, H), name="w")

    def step(k, h):
        return sj.tanh(h @ w + w[k])

    start = sj.zeros((x.shape[1], H))
    found = [sj.scan(step, i, start), sj.scan(step, i[::-1], start + 1)]
    with Config(threads=3).active():
        f = sj.function([x, i, w], found, mode="emulate")
        assert len(groups(f)) == 1
        given = np.zeros((3, 2, H)), np.zeros((H, H))
        f(given[0], np.array([0, 1, 2]), given[1])
        with pytest.raises(sj.OutOfBoundsError):
            f(given[0], np.array([0, 1, H]), given[1])


# ---- memory --------------------------------------------------------------------------------------------------------


def touched(statement):
    own = {buffer for buffer, _, _ in statement.refs() if buffer.kind == "temporary"}
    return own.union(*map(touched, statement.inner))


def test_branches_share_no_memory():
    inputs, outputs = network(2)
    (stage,) = sj.function(inputs, outputs, mode="emulate").executable.stages
    lives = stage.table.lives
    sizes = {
        atom: 40 for life in lives for d in (*life.buffer.shape, life.copies, *life.branches) for atom in types.atoms(d)
    }
    offsets, _ = assign(stage.table.lives, types.Numbers(sizes))
    spans = {life.buffer: (at, at + types.evaluate(life.buffer.nbytes, sizes))
             for life, at in zip(stage.table.lives, offsets, strict=True)}  # fmt: skip
    found = [s for s in stage.program.suite if isinstance(s, Beside)]
    assert len(found) == 4
    for group in found:
        one, two = map(touched, group.branches)
        for a, b in itertools.product(one, two):
            assert a is b or spans[a][1] <= spans[b][0] or spans[b][1] <= spans[a][0], (a, b)


# ---- who runs what -------------------------------------------------------------------------------------------------


def cost(work, runs=100, pieces=64):
    return Work([Cost("float32", runs, work, 0.0, pieces)], types.Numbers({}), 2**20)


def test_longest_first():
    teams, _ = teams_for([cost(1e5), cost(9e5), cost(4e5), cost(4e5)], 2)
    assert teams == [Team(1, 1), Team(0, 1), Team(1, 1), Team(1, 1)]


def test_more_threads_than_loops():
    teams, _ = teams_for([cost(3e6), cost(1e6)], 4)
    assert teams == [Team(0, 3), Team(3, 1)]
    teams, _ = teams_for([cost(1e3), cost(1e3)], 4)
    assert teams == [Team(0, 1), Team(1, 1)]  # so little a step that meeting would cost more


def test_threads_with_rows_of_their_own_meet_once():
    """Twice as many steps take twice as long, with each thread's share of the rows, but for that meeting."""
    rows = OwnRows(64, 4, 0)

    def times(runs):
        return Work([Cost("float32", runs, 1e5, 0.0, 64, rows)], types.Numbers({}), 2**20).times(rows, 2)

    assert times(100) == (100 * (1e5 / 2 + rates.MEETING), 100 * 1e5 / 2 + rates.MEETING)
    assert times(200) == (200 * (1e5 / 2 + rates.MEETING), 200 * 1e5 / 2 + rates.MEETING)


def test_a_profile_counts_the_threads_of_each_branch(always_apart, monkeypatch):
    inputs, outputs = network(1, gradient=False)
    f = sj.function(inputs, outputs)
    config.threads = 3
    monkeypatch.setattr(config, "profile", True)
    f(*arguments(inputs))
    (stage,) = f._profiled.stages
    (sized,) = stage.known.values()
    expected = list(stage.timer.expected(sized))
    assert {threads for _, threads in expected} == {0, 1}
    assert len(expected) == len(stage.timer.lines) and "3 threads" in str(f.profile())


def test_what_is_decided_is_explained(monkeypatch):
    inputs, outputs = network(1, gradient=False)
    f = sj.function(inputs, outputs, mode="emulate")
    assert "depends on sizes" in f.explain()
    before = config.threads
    try:
        config.threads = 2
        f(*arguments(inputs))
        assert "too little work for several threads" in f.explain()
        monkeypatch.setattr(rates, "WAKING", 0.0)
        monkeypatch.setattr(sharing, "_gains", lambda *_: True)
        f = sj.function(inputs, outputs, mode="emulate")  # what is small for some sizes is not asked again
        f(*arguments(inputs))
        assert "on threads 0, 1, without waiting for each other" in f.explain()
        uneven = Assignment(None, 2e9, 1e9)
        f.executable.stages[0].forget()
        monkeypatch.setattr(sharing, "assignment", lambda *_: uneven)
        f(*arguments(inputs))
        assert "all 2 threads share the steps of each (about 2.0e+09 operations apart, 1.0e+09" in f.explain()
        config.threads = 1
        f(*arguments(inputs))
        assert "; one thread" in f.explain()
    finally:
        config.threads = before


def test_loops_of_no_step_without_a_loop():
    x, w = sj.tensor((0, 2, H)), sj.tensor((H, H))
    start = sj.zeros((2, H))
    with Config(rewrite=False).active():
        outputs = [sj.scan(lambda a, h, u=u: np.tanh(a + h @ u), x, start, unroll=True) for u in (w, w.T)]
        f = sj.function([x, w], outputs, mode="emulate")
        assert [len(group.branches) for group in groups(f)] == [2]
        assert [y.shape for y in f(np.zeros((0, 2, H)), np.eye(H))] == [(0, 2, H)] * 2


@pytest.mark.parametrize("layers, times", [(1, ""), (2, " (so 2 times)")])
def test_loops_that_are_decided_alike_are_explained_once(layers, times):
    text = sj.function(*network(layers, gradient=False), mode="emulate").explain()
    (line,) = (line for line in text.splitlines() if "side by side" in line)
    assert line.endswith(f"whether each gets threads of its own depends on sizes{times}")


def test_explain_tells_what_was_decided_for_the_call() -> None:
    """Not what would be decided for more threads."""
    x, w = sj.tensor(("T", "N"), "float64"), sj.tensor(("N", "N"), "float64")
    loops = [sj.scan(lambda row, h, w, k=k: sj.tanh(row * k + h @ w), x, x[0], non_sequences=w) for k in (1, 2, 3)]
    f = sj.function([x, w], [h[-1] for h in loops])
    sj.config.threads = 2
    f(np.ones((2000, 16)), np.ones((16, 16)))
    assert "too little work for several threads" in str(f.explain())
