"""Passes of the scheduler change nothing that they are given: statements and buffers stay as they were."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property

import pytest

import scanjit as sj
from scanjit.ir import Node
from scanjit.runtime import host
from scanjit.runtime.program import Staged
from scanjit.schedule import pipeline
from scanjit.schedule.nests import Buffer, Program, Statement
from tests.fuzz.checkpoints import CHOICES, with_checkpoints
from tests.fuzz.curvature import second_order
from tests.fuzz.programs import program

Outputs = tuple[list[Node], list[Node]]
Pass = Callable[[Program], Program]


def is_cached(attribute: object) -> bool:
    return isinstance(attribute, cached_property)


def fields(thing: object) -> dict[str, object]:
    """What a program, a statement or a buffer holds, but for what it has found out about itself: no lists, which
    anybody might change."""
    kind = type(thing)
    held = {name: value for name, value in vars(thing).items() if not is_cached(getattr(kind, name, None))}
    lists = [name for name, value in held.items() if isinstance(value, list)]
    assert not lists, f"{thing} has lists: {lists}"
    return held


def given(program: Program) -> Iterator[Statement | Buffer]:
    """All statements and buffers of a program before a pass."""
    for top in program.suite:
        for statement in top.every():
            yield statement
            yield from (buffer for buffer, _, _ in statement.refs())


def watched(name: str, function: Pass, seen: list[str]) -> Pass:
    """A pass that fails if it changes what it is given."""

    def run(program: Program) -> Program:
        before = {thing: fields(thing) for thing in (program, *given(program))}
        made = function(program)
        changed = [thing for thing, old in before.items() if fields(thing) != old]
        assert not changed, f"{name} changes {changed}"
        seen.append(name)
        return made

    return run


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []
    made = tuple((name, watched(name, function, seen)) for name, function in pipeline.PASSES)
    monkeypatch.setattr(pipeline, "PASSES", made)
    return seen


def ring() -> Outputs:
    """A carry with a lag, of which memory holds a stretch and the steps before it."""
    x, first = sj.tensor(("T", 3), name="x"), sj.tensor((12, 3), name="first")
    y = sj.scan(lambda row, old, h: sj.tanh(row + 0.5 * h - 0.2 * old), x, dict(initial=first, taps=[-12, -1]))
    return [x, first], [sj.grad((y**2).sum(), x)]


def random_program(seed: int) -> Outputs:
    p = second_order(seed, None) if seed % 2 else program(seed)
    return list(p.inputs), with_checkpoints(p.outputs, CHOICES[seed // 2 % len(CHOICES)])


def test_a_ring_is_made_without_changing_what_is_there(passes: list[str]) -> None:
    with host.using(replace(host.target(), level2_bytes=256)):
        made = Staged(*ring(), "f", "emulate")
    assert "memory for one block of" in made.explain() and "carry" in made.explain()
    assert passes == [name for name, _ in pipeline.PASSES]


def test_passes_change_nothing_that_they_are_given(passes: list[str]) -> None:
    texts = [Staged(*random_program(seed), "f", "emulate").explain() for seed in range(14)]
    assert sum("recomputed for the gradient" in text for text in texts) > 3
    assert any("in blocks of time" in text for text in texts)
    assert len(passes) >= len(texts) * len(pipeline.PASSES)
