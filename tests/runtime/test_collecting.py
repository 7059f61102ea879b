"""While something is compiled, Python looks for cycles less often; afterwards as before."""

import gc
import weakref

import pytest

import scanjit as sj
from scanjit import types
from scanjit.runtime import collecting, program
from scanjit.schedule.lower.table import rules_for
from scanjit.target import target_for


@pytest.fixture(autouse=True)
def usual():
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)


@pytest.fixture
def meanwhile(monkeypatch):
    """The thresholds while functions are compiled."""
    found = []
    real = program.Staged._compiled
    monkeypatch.setattr(program.Staged, "_compiled", lambda self: found.append(gc.get_threshold()) or real(self))
    return found


def compile_something():
    x = sj.vector("x")
    return sj.function([x], x + 1, mode="emulate")


def test_the_setting_holds_while_something_is_compiled(usual, meanwhile):
    compile_something()
    assert meanwhile == [(collecting.SELDOM, *usual[1:])]
    assert gc.get_threshold() == usual


@pytest.mark.parametrize("own", [(0, 10, 10), (10**6, 5, 5)])
def test_who_looks_less_often_is_left_alone(own, meanwhile):
    gc.set_threshold(*own)
    compile_something()
    assert [each[0] for each in meanwhile] == [own[0]]
    assert gc.get_threshold()[0] == own[0]


def test_an_error_restores_it_and_so_does_the_first_of_two_that_overlap(usual):
    with pytest.raises(KeyError), collecting.collected_seldom():
        raise KeyError
    assert gc.get_threshold() == usual
    one, other = collecting.collected_seldom(), collecting.collected_seldom()
    with one:
        other.__enter__()
    assert gc.get_threshold() == usual
    other.__exit__(None, None, None)
    assert gc.get_threshold() == usual


def test_what_a_user_sets_meanwhile_stays(usual):
    with collecting.collected_seldom():
        gc.set_threshold(1234)
    assert gc.get_threshold()[0] == 1234


def test_what_was_made_counts_as_old():
    """So the collector does not look through all of it at once."""
    with collecting.collected_seldom():
        made = [[] for _ in range(10_000)]
    assert gc.get_count()[0] < 1000
    assert any(each is made for each in gc.get_objects(generation=2))


def test_cycles_that_blocks_leave_are_found_at_last():
    """Objects that are old at once are in no count of the collector's own."""

    class Thing:
        pass

    alive = []
    for _ in range(2 * collecting._allowed // 1000):
        with collecting.collected_seldom():
            things = [Thing() for _ in range(1000)]
            for thing in things:
                thing.itself = thing
            alive.append(weakref.ref(things[0]))
            del thing, things
    assert alive[0]() is None


def test_a_block_waits_for_no_look_at_what_it_left(monkeypatch):
    """The look takes as long as a tenth of the compilation, and a process may compile one function only."""
    looks = []
    monkeypatch.setattr(collecting, "_unseen", 0)
    monkeypatch.setattr(collecting, "_allowed", 1000)
    monkeypatch.setattr(collecting, "_look_through_all", lambda: looks.append("look"))
    with collecting.collected_seldom():
        kept = [[] for _ in range(10_000)]
    assert looks == []
    with collecting.collected_seldom():
        assert looks == ["look"]
        assert len(kept) == 10_000


def test_what_a_user_has_frozen_stays_frozen():
    gc.freeze()
    try:
        with collecting.collected_seldom():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_the_compiler_leaves_no_cycles():
    """What refers to itself stays until Python looks for cycles, with all that it refers to. (The objects of llvmlite,
    of which `simd` makes new functions of vectors, refer to each other.)"""
    x, mask = sj.tensor(("T", "B", 8), "float32", "x"), sj.tensor(("T", "B"), "bool", "mask")
    w, u = (sj.tensor((8, 8), "float32", name) for name in "wu")
    step = lambda row, on, h: sj.where(on[:, None], sj.tanh(row @ w + h @ u), h)
    h = sj.scan(step, sequences=[x, mask], outputs_info=sj.zeros((x.shape[1], 8), "float32"))
    cost = (h**2).sum()
    gradients = sj.grad(cost, [w, u])
    sj.function([w], w + 1)  # with an empty cache, the code that calls kernels is made once, and its writer is a cycle
    gc.collect()
    gc.disable()
    try:
        f = sj.function([x, mask, w, u], [cost, *gradients])  # noqa: F841 - it holds what is not garbage
        left = [name for name in _garbage() if name.startswith("scanjit.") and not name.startswith("scanjit.simd.")]
    finally:
        gc.enable()
    assert left == []


def test_no_compilation_makes_rules_for_its_processor_anew():
    """They refer to themselves."""
    targets = [target_for("x86_64-linux-gnu", features=features) for features in ("", "+avx2,+fma")]
    assert targets[0] != targets[1] and rules_for(targets[0]) is rules_for(targets[1])


def test_conditions_on_computed_sizes_leave_no_cycles():
    """The functions that compute them would keep nodes."""
    n = types.size("n")
    found = types.formula(2 * n + n // 2)
    assert found({atom: 5 for atom in types.atoms(n)}) == 12
    alive = weakref.ref(found)
    gc.disable()
    try:
        del found
        assert alive() is None
    finally:
        gc.enable()


def test_a_slice_of_everything_leaves_no_cycle():
    gc.disable()
    try:
        x = sj.vector("x")
        alive = weakref.ref(x)
        x[:], x[...]
        del x
        assert alive() is None
    finally:
        gc.enable()


def _garbage():
    """The modules and names of the classes of which there are objects that only cycles keep."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return sorted({f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage})
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
