"""Calls whose layers hand rows on in slots: interrupted, forked, pickled, on several threads, a step at a time, beside
checkpoints, and of random stacks."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.config import config
from tests.alarms import Stop, alarms, raising
from tests.compiler.test_slots import short, skipping, states, two_steps_back
from tests.compiler.test_waves import H, always, arguments, flat, layer, pairs, program, stack
from tests.fuzz.check import Config, agree
from tests.workers import nobody_works

__all__ = ["always", "short"]
SLOTS = "with memory for a few turns of"


def compiled(made: Any, threads: int = 2) -> Any:
    config.threads = threads
    f = program(made, "numba")
    assert SLOTS in f.explain()
    return f


def same(found: Any, wanted: Any) -> bool:
    return all(agree(a, b) for a, b in zip(flat(found), flat(wanted), strict=True))


@pytest.mark.parametrize("threads", [1, 3])
def test_the_call_after_an_interrupt_is_right(always: None, short: int, threads: int) -> None:
    f, args, rung = compiled(states, threads), arguments(3000), 0
    wanted = flat(f(*args))
    for i in range(40):
        try:
            with alarms(raising, 1e-4 * (1 + i)):
                f(*args)
        except Stop:
            rung += 1
        assert all((a == b).all() for a, b in zip(flat(f(*args)), wanted, strict=True))
    assert rung > 0
    assert nobody_works()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_computes_the_same(always: None, short: int) -> None:
    f, args = compiled(states), arguments(23)
    wanted = flat(f(*args))
    child = os.fork()
    if child == 0:
        right = all((a == b).all() for _ in range(3) for a, b in zip(flat(f(*args)), wanted, strict=True))
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert same(f(*args), wanted)


def test_a_pickled_copy_computes_the_same(always: None, short: int) -> None:
    f, args = compiled(skipping), arguments(23)
    copy = pickle.loads(pickle.dumps(f))
    assert SLOTS in copy.explain()
    np.testing.assert_array_equal(copy(*args), f(*args))


def test_calls_at_the_same_time_do_not_share_slots(always: None, short: int) -> None:
    f, lengths = compiled(states), (300, 7, 1, 120)
    wanted = {T: flat(f(*arguments(T))) for T in lengths}

    def call(i: int) -> bool:
        T = lengths[i % len(lengths)]
        return all((a == b).all() for a, b in zip(flat(f(*arguments(T))), wanted[T], strict=True))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(200)))


def test_blocks_of_a_stream_are_the_whole(always: None, short: int) -> None:
    """Each block is a call whose layers take turns; the state leaves the slots."""
    x, args = sj.tensor(("T", 2, H), "float32", "x"), arguments(60)
    config.threads = 2
    for made in (two_steps_back, stack):
        f = sj.function([x], made(x, [sj.shared(w) for w in args[1:]]))
        assert SLOTS in f.explain()
        step, state, found = sj.step_function(f), None, []
        for block in np.split(args[0], [1, 24, 25, 50]):
            rows, state = step.block(block, state)
            found.append(rows)
        assert same(np.concatenate(found), f(args[0]))


def beside_a_checkpoint(x: Any, weights: Any) -> Any:
    """The stack has slots; the gradient of the loop beside it computes stretches of steps again."""
    last = layer(x, *weights[:2], checkpoint=4)[-1]
    return [skipping(x, weights), *sj.grad((last * last).sum(), [x, *weights[:2]])]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_beside_checkpoints(short: int, threads: int) -> None:
    with Config(width=32, shared=True, threads=threads, small=True).active():
        f, wanted = program(beside_a_checkpoint, "emulate"), program(beside_a_checkpoint, "reference")
        assert SLOTS in f.explain()
        for T in (13, 4, 1):
            assert same(f(*arguments(T)), wanted(*arguments(T)))


def some_stack(seed: int) -> Any:
    """Layers with residuals, masks, both directions, and rows that are read two steps back, as chance has it."""

    def made(x: Any, weights: Any) -> Any:
        rng, found = np.random.default_rng(seed), []
        mask, backwards = x[:, :, :1] > 0, bool(rng.integers(2))
        for w, r in pairs(weights):
            back, masked, residual, late = rng.integers(2, size=4)
            start: Any = sj.ones((x.shape[1], H), x.dtype)
            if back:
                start = {"initial": sj.ones((2, x.shape[1], H), x.dtype), "taps": [-2, -1]}

            def step(a: Any, on: Any, *states: Any, w: Any = w, r: Any = r, masked: int = masked) -> Any:
                new = np.tanh(a @ w + states[-1] @ r + 0.3 * states[0])
                return sj.where(on, new, states[-1]) if masked else new

            h = sj.scan(step, [x, mask], start, go_backwards=backwards)
            h = h[::-1] if backwards else h
            found.append(h[0 if backwards else -1])
            if late and not backwards:
                h = sj.concatenate([sj.zeros((1, x.shape[1], H), x.dtype), h[:-1]])
            x = x + h if residual else h
        return [*found, x] if rng.integers(2) else found

    return made


@pytest.mark.quick(4)
@pytest.mark.parametrize("seed", range(16))
def test_random_stacks(short: int, seed: int) -> None:
    with Config(width=32, shared=True, threads=1 + seed % 3, small=True, cheap=bool(seed % 2)).active():
        f, wanted = program(some_stack(seed), "emulate"), program(some_stack(seed), "reference")
        for T in (13, 5, 2, 1):
            assert same(f(*arguments(T)), wanted(*arguments(T))), T


def test_many_random_stacks_have_slots() -> None:
    assert sum(SLOTS in program(some_stack(seed), "emulate").explain() for seed in range(16)) > 8
