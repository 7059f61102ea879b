"""Planned memory: temporaries that live at one time never share a byte, and the plan changes no result."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools

import numpy as np
import pytest

import scanjit as sj
from scanjit import types
from scanjit.runtime import sized
from scanjit.runtime.addresses import address
from scanjit.runtime.compiled import CompiledStage
from scanjit.schedule.memory.addresses import ALIGNMENT, assign
from scanjit.schedule.nests import Lifetime, jobs_of
from tests.fuzz.check import Config, Mismatch, check
from tests.fuzz.programs import Program, program

CHUNKS = [pytest.param(range(20_000, 20_040)), pytest.param(range(20_040, 20_100), marks=pytest.mark.slow)]


@functools.cache
def compiled_stages(seed: int) -> tuple[Program, list[CompiledStage]]:
    """The program of a seed, and the stages that are compiled of it."""
    p = program(seed)
    with Config().active():
        return p, sj.function(p.inputs, p.outputs, mode="emulate").executable.stages  # type: ignore[attr-defined]


def in_branches_side_by_side(a: Lifetime, b: Lifetime) -> bool:
    """Whether different branches of one `Beside` use these temporaries: they may run at the same time."""
    return any(len(a.branches[each] | b.branches[each]) > 1 for each in a.branches.keys() & b.branches.keys())


@pytest.mark.parametrize("seeds", CHUNKS, ids=str)
def test_what_lives_together_lies_apart(seeds: range) -> None:
    for seed in seeds:
        p, stages = compiled_stages(seed)
        for stage in stages:
            if any(atom.kind == "value" for atom in stage.table.atoms):
                continue
            dims = [d for life in stage.table.lives for d in (*life.buffer.shape, *life.branches, life.copies)]
            sizes = {atom: p.sizes.get(atom, 3) for d in dims for atom in types.atoms(d)}
            offsets, total = assign(stage.table.lives, types.Numbers(sizes))
            ends = [o + types.evaluate(x.nbytes, sizes) for o, x in zip(offsets, stage.table.lives, strict=True)]
            assert all(o % ALIGNMENT == 0 for o in offsets) and max(ends, default=0) <= total
            for (a, i), (b, j) in itertools.combinations(
                list(zip(stage.table.lives, range(len(ends)), strict=True)), 2
            ):
                if a.meets(b) or in_branches_side_by_side(a, b):
                    assert ends[i] <= offsets[j] or ends[j] <= offsets[i], f"seed {seed}: {a}, {b}"


@pytest.mark.parametrize("seeds", CHUNKS, ids=str)
def test_every_use_is_within_the_lifetime(seeds: range) -> None:
    """Each temporary that a statement touches is known to the plan, and lives over more than one moment if it is used
    by more than one statement."""
    for seed in seeds:
        for stage in compiled_stages(seed)[1]:
            lives = {id(life.buffer): life for life in stage.program.lifetimes}  # those on a stack too
            uses: dict[int, int] = {}
            for statement in jobs_of(stage.program.suite):
                for buffer in {id(b): b for b, _, _ in statement.refs()}.values():
                    if buffer.kind == "temporary":
                        assert id(buffer) in lives, f"seed {seed}: {buffer}"
                        uses[id(buffer)] = uses.get(id(buffer), 0) + 1
            for key, count in uses.items():
                assert lives[key].last - lives[key].first >= count - 1, f"seed {seed}"


def test_the_plan_changes_nothing() -> None:
    """With three sizes each; a third of all random programs (`test_random`) runs with planned memory too."""
    for seed in range(30_000, 30_010):
        check(program(seed), [Config(shared=True, width=32)], runs=3)


def test_compiled_with_and_without_sharing(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    x = sj.tensor(("T", "B", "N"), "float32", "x")
    w = sj.tensor(("N", "N"), "float32", "w")
    h, y = sj.scan(
        lambda row, s, t: [sj.tanh(row + s @ w), t + s * s], x, [sj.zeros(x.shape[1:], "float32")] * 2
    )  # fmt: skip
    cost = (h * y).sum()
    outputs = [cost, *sj.grad(cost, [x, w]), sj.logsumexp(h[-1] @ w, 1)]
    given = rng.normal(size=(6, 3, 20)).astype("float32"), rng.normal(size=(20, 20)).astype("float32") / 5
    shared = sj.function([x, w], outputs)(*given)

    def apart(lives: list, number: types.Numbers) -> tuple[list[int], int]:
        lengths = [(number(life.nbytes) // ALIGNMENT + 2) * ALIGNMENT for life in lives]
        ends = list(itertools.accumulate(lengths, initial=0))
        return ends[:-1], ends[-1]

    monkeypatch.setattr(sized, "assign", apart)
    alone = sj.function([x, w], outputs)(*given)
    np.testing.assert_equal(shared, alone)


def test_writes_beside_a_workspace_are_noticed() -> None:
    x = sj.matrix("x")
    for first in (-1, 0, 1):
        with pytest.raises(Mismatch) if first else contextlib.nullcontext(), Config("numba").active():
            f = sj.function([x], x @ x @ x, mode="numba")
            f(np.ones((30, 30), x.dtype))
            (space,) = (space for stage in f.executable.stages for space in stage.workspaces)  # type: ignore[attr-defined]
            place = address(space.memory) + {-1: -1, 0: 0, 1: space.memory.size}[first]
            ctypes.memset(place, 0, 1)


@pytest.mark.parametrize("checkpoint", [None, 4])
def test_what_is_predicted_is_allocated(checkpoint: int | None) -> None:
    x, w = sj.tensor(("T", "B", 20), "float32", "x"), sj.tensor((20, 20), "float32", "w")
    h = sj.scan(lambda row, s: sj.tanh(row + s @ w), x, sj.zeros(x.shape[1:], "float32"), checkpoint=checkpoint)
    f = sj.function([x, w], [h, *sj.grad((h[-1] ** 2).sum(), [x, w])])
    for length, batch in ((5, 2), (30, 3)):
        results = f(np.zeros((length, batch, 20), "float32"), np.zeros((20, 20), "float32"))
        predicted = f.memory(T=length, B=batch)
        kept = sum(space.memory.nbytes for stage in f.executable.stages for space in stage.workspaces)  # type: ignore[attr-defined]
        assert predicted.workspace == kept
        assert sum(x.nbytes for x in results) <= predicted.results <= sum(x.nbytes for x in results) + 80 * batch
        assert str(predicted.workspace) in f.explain()


def test_a_branch_gives_back_what_only_its_first_product_reads() -> None:
    """A branch runs once. Of its four products and what it reads, no more than four matrices are there at a time."""
    x, p = sj.tensor(("N", "N"), name="x"), sj.scalar("p")
    y = sj.tanh(x)
    products = sj.ifelse(p > 0, lambda: ((y @ x) @ x) @ (x.T @ x), lambda: x)
    f = sj.function([x, p], [y.sum(0), products], mode="emulate")
    assert f.memory(N=1000).workspace < 4.5 * 8 * 1000**2


def test_a_size_that_is_missing() -> None:
    x = sj.tensor(("T", 3), name="x")
    with pytest.raises(sj.ArgumentError, match="T"):
        sj.function([x], sj.exp(x), mode="emulate").memory(B=2)
    y = sj.tensor(("N",), name="y")
    for size in ("3", None, 2.5, -1, True):
        with pytest.raises(sj.ArgumentError, match="a size is an integer from 0 on"):
            sj.function([y], sj.exp(y), mode="emulate").memory(N=size)
