"""The verifier of programs: it passes what the scheduler makes, and refuses a program that breaks one of its rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.ops.extremes import SUM
from scanjit.ops.index import GATHER
from scanjit.runtime import host
from scanjit.schedule.nests import (
    Beside,
    Blocks,
    If,
    Literal,
    Nest,
    NestLoop,
    Pack,
    Program,
    Reduce,
    RowsApart,
    Statement,
    TimeLoop,
    Value,
    walk_values,
)
from scanjit.schedule.nests.verify import RULES, verify
from scanjit.schedule.pipeline import fused_program
from scanjit.schedule.tiles.apply import with_tiles
from scanjit.schedule.tiles.pack import with_packs
from tests.fuzz.cases import program as random_program
from tests.golden.programs import PROGRAMS

Change = Callable[[Any], Any]
"""A new statement for an old one; None to leave it out, a list for several."""


# ---- programs --------------------------------------------------------------------------------------------------------


def branch() -> tuple[list[Any], list[Any]]:
    """A condition, each branch of which is a statement."""
    x = sj.tensor((4,), "float64", "x")
    return [x], [sj.ifelse(x.sum() > 0, lambda: np.exp(x), lambda: -x) * 2.0]


def stops() -> tuple[list[Any], list[Any]]:
    """A loop that may end early."""
    x, m = sj.tensor((9, 4), "float64", "x"), sj.tensor((4, 4), "float64", "m")
    step = lambda row, h: ((h := h @ m + row), sj.until(h.sum() > 3.0))
    return [x, m], [sj.scan(step, x, sj.zeros(4))]


def two_ways() -> tuple[list[Any], list[Any]]:
    """Two loops side by side, of sizes that are known."""
    x, m = sj.tensor((9, 3, 8), "float32", "x"), sj.tensor((8, 8), "float32", "m")
    step = lambda row, h: np.tanh(h @ m + row)
    start = sj.zeros((3, 8), "float32")
    return [x, m], [sj.scan(step, x, start), sj.scan(step, x, start, go_backwards=True)]


def weights_two_ways() -> tuple[list[Any], list[Any]]:
    """Two loops side by side that read the same weights, which are packed once for many calls."""
    x, m = sj.tensor(("T", "B", 8), "float32", "x"), sj.shared(np.ones((8, 8), "float32"), name="m")
    step = lambda row, h: np.tanh(h @ m + row)
    start = sj.zeros((x.shape[1], 8), "float32")
    return [x], [sj.scan(step, x, start), sj.scan(step, x, start, go_backwards=True)]


def branch_in_a_loop() -> tuple[list[Any], list[Any]]:
    """A loop over time with a branch in each step. What the branch packs is the same in all steps."""
    x, m = sj.tensor(("T", "B", 8), "float32", "x"), sj.tensor((8, 32), "float32", "m")
    n = sj.tensor((32, 8), "float32", "n")
    step = lambda row, h: sj.ifelse(row.sum() > 0, lambda: np.tanh(np.tanh(h @ m) @ n + row), lambda: h)
    return [x, m, n], [sj.scan(step, x, sj.zeros((x.shape[1], 8), "float32"))]


def sum_in_a_loop() -> tuple[list[Any], list[Any]]:
    """A loop over time, each step of which sums over the steps of a loop inside it."""
    x, m = sj.tensor(("T", "S", 4), "float64", "x"), sj.tensor((4, 4), "float64", "m")

    def step(rows: Any, h: Any) -> Any:
        return np.tanh(sj.scan(lambda row, g: np.tanh(g @ m + row), rows, h).sum(0))

    return [x, m], [sj.scan(step, x, sj.zeros(4))]


def over_time() -> tuple[list[Any], list[Any]]:
    """A nest with time, whose registers go over many points."""
    x = sj.tensor((50, 300), "float32", "x")
    return [x], [sj.scan(lambda row, h: sj.sigmoid(h) * row, x, sj.zeros(300, "float32"))[-1]]


def in_bands() -> tuple[list[Any], list[Any]]:
    """The gradient of a scan, which needs all states: bands of points, and the states of a band."""
    a, x = sj.tensor(("K",), "float64", "a"), sj.tensor(("T", "K"), "float64", "x")
    states = sj.scan(lambda row, h: np.tanh(a * h + row), x, sj.zeros_like(a))
    return [a, x], [sj.grad((states**2).sum(0).sum(), a)]


def product() -> tuple[list[Any], list[Any]]:
    """A product of matrices: one nest with a register tile."""
    a, b = sj.tensor((128, 32), "float32", "a"), sj.tensor((32, 300), "float32", "b")
    return [a, b], [np.tanh(a @ b)]


def weights() -> tuple[list[Any], list[Any]]:
    """A loop that reads shared weights, which are packed once for many calls."""
    x, w = sj.tensor(("T", "B", 8), "float32", "x"), sj.shared(np.ones((8, 8), "float32"), "w")
    return [x], [sj.scan(lambda row, h: np.tanh((h + 2.0 * row) @ w), x, sj.zeros((x.shape[1], 8), "float32"))[-1]]


def two_weights() -> tuple[list[Any], list[Any]]:
    """Two loops side by side, each with shared weights that are packed once for many calls."""
    x = sj.tensor(("T", 20, 64), "float32", "x")
    v, w = (sj.shared(np.ones((64, 64), "float32"), name) for name in "vw")
    start = sj.zeros((20, 64), "float32")
    return [x], [
        sj.scan(lambda row, h: np.tanh(h @ v + row), x, start),
        sj.scan(lambda row, h: np.tanh(h @ w + row), x, start, go_backwards=True),
    ]


MADE = {
    f.__name__: f
    for f in (
        branch, stops, two_ways, weights_two_ways, branch_in_a_loop, sum_in_a_loop, over_time, product, weights,
        two_weights, in_bands,
    )
} | PROGRAMS  # fmt: skip


def scheduled(name: str) -> Program:
    """The finished program of a computation, which may be broken."""
    return sj.function(*MADE[name](), mode="emulate").executable.stages[0].program


def edited(program: Program, kind: type[Statement], change: Change, number: int = 0) -> Program:
    """A program with one of its statements of a kind changed."""
    left = number

    def suite(statements: Any) -> list[Statement]:
        nonlocal left
        result: list[Statement] = []
        for statement in statements:
            statement = statement.with_suites(*map(suite, statement.suites)) if statement.suites else statement
            if isinstance(statement, kind):
                left -= 1
                if left == -1:
                    new = change(statement)
                    result += new if isinstance(new, list) else [] if new is None else [new]
                    continue
            result.append(statement)
        return result

    new = replace(program, suite=suite(program.suite))
    assert left < 0, f"there are not so many statements of this kind: {kind.__name__}"
    return new


# ---- what is right ---------------------------------------------------------------------------------------------------


@pytest.mark.quick(4)
@pytest.mark.parametrize("name", MADE)
def test_what_the_scheduler_makes_is_right(name: str) -> None:
    program = scheduled(name)
    verify(program)
    for stage in sj.function(*MADE[name](), mode="emulate").executable.stages:
        verify(fused_program(stage.stage.origins, stage.stage.outputs, host.target()))
    assert not any(list(rule(program)) for rule in RULES)


def test_loops_that_read_the_same_weights_share_a_pack() -> None:
    program = scheduled("weights_two_ways")
    (beside,) = (statement for statement in program.suite if isinstance(statement, Beside))
    (pack,) = (statement for top in program.suite for statement in top.every() if isinstance(statement, Pack))
    assert all(any(buffer is pack.target for buffer, _, _ in branch.all_refs()) for branch in beside.branches)
    assert list(program.lasting) == [pack.target]


def test_a_pack_leaves_every_loop_and_branch_in_which_it_is_the_same() -> None:
    program = scheduled("branch_in_a_loop")
    every = [statement for top in program.suite for statement in top.every()]
    packs = [statement for statement in every if isinstance(statement, Pack)]
    assert any(isinstance(statement, If) for statement in every) and len(packs) == 2
    assert all(pack in program.suite for pack in packs)


def test_a_pack_is_made_anew_when_its_source_was_written() -> None:
    leaves, outputs = product()
    program = with_tiles(fused_program(leaves, outputs, host.target()))
    (nest,) = program.suite
    read, written = (next(b for b, _, writes in nest.all_refs() if writes == way and b.name != "a") for way in (0, 1))
    writer = nest.rebased(lambda buffer, offset: (read if buffer is written else buffer, offset))
    twice, anew = (with_packs(replace(program, suite=suite)).suite for suite in ((nest, nest), (nest, writer, nest)))
    assert [type(statement) for statement in twice] == [Pack, Nest, Nest]
    assert [type(statement) for statement in anew] == [Pack, Nest, Nest, Pack, Nest]


def test_fused_random_programs_are_right() -> None:
    for seed in range(7000, 7012):
        p = random_program(seed)
        for stage in sj.function(list(p.inputs), list(p.outputs), mode="emulate").executable.stages:
            verify(fused_program(stage.stage.origins, stage.stage.outputs, host.target()), f"fusing seed {seed}")


# ---- what is wrong ---------------------------------------------------------------------------------------------------


def store(change: Change) -> Change:
    """A nest with its first store changed."""
    return lambda nest: replace(nest, stores=[change(nest.stores[0]), *nest.stores[1:]])


def access(**fields: Any) -> Change:
    """A nest whose first store goes elsewhere."""
    return store(lambda old: replace(old, access=replace(old.access, **fields)))


def buffer(**fields: Any) -> Change:
    """A nest whose first store goes to a buffer with other fields."""
    return store(lambda old: replace(old, access=replace(old.access, buffer=replace(old.access.buffer, **fields))))


def tile(**fields: Any) -> Change:
    """A nest with another tile; a field may be a function of the nest."""
    return lambda nest: replace(
        nest, tile=replace(nest.tile, **{k: v(nest) if callable(v) else v for k, v in fields.items()})
    )


def fields(**new: Any) -> Change:
    """A statement with other fields; each may be a function of it."""
    return lambda old: replace(old, **{k: v(old) if callable(v) else v for k, v in new.items()})


def reduction(nest: Nest) -> Reduce:
    return next(value for value in walk_values(nest.roots) if isinstance(value, Reduce))


def summed(value: Value) -> Value:
    """A value added up over a loop that it does not depend on."""
    return Reduce(value.dtype, SUM, (NestLoop(2),), value)


FOREIGN = NestLoop(3)

WRONG: dict[str, tuple[str, type[Statement], int, Change]] = {
    # what is known where
    "a store uses a loop that is not": ("product", Nest, 0, access(strides={FOREIGN: 1})),
    "a value uses a loop that is neither": ("product", Nest, 0, lambda nest: nest.rebuilt(space=[NestLoop(64)] * 0)),
    "nor that of a reduction around it": (
        "product", Nest, 0, lambda nest: store(lambda old: replace(old, value=reduction(nest).term))(nest),
    ),
    "which no loop around it counts": ("two_ways", TimeLoop, 0, lambda loop: list(loop.suite)),
    "the size of buffer .* changes": (
        "lstm", TimeLoop, 0, lambda loop: loop.with_suites([buffer(shape=(loop.row + 1, 99))(loop.suite[0])]),
    ),
    # buffers
    "which is input": ("product", Nest, 0, buffer(kind="input")),
    "is of no kind": ("product", Nest, 0, buffer(kind="scratch")),
    "as its data": ("product", Nest, 0, buffer(data=np.zeros(3))),
    "none of the program's inputs": (
        "garch", Nest, 1, lambda nest: nest.rebuilt(
            lambda a: replace(a, buffer=replace(a.buffer)) if a.buffer.kind == "input" else a),
    ),
    "which nothing before it writes": ("two_ways", Nest, 0, lambda nest: None),
    "it reads 'branch', which nothing": ("branch", If, 0, fields(otherwise=[])),
    "it reads 'stop', which nothing": (
        "stops", TimeLoop, 0, lambda loop: loop.with_suites(
            [s for s in loop.suite if all(b.name != "stop" for b, _, _ in s.refs())]),
    ),
    "it reads 'scatter', which nothing": ("embedding", Nest, 1, lambda nest: None),
    "is not written, or lies in no output": ("product", Nest, 0, lambda nest: None),
    # bounds
    "in front of its first element": ("product", Nest, 0, access(offset=-1)),
    "which has 38400 elements": ("product", Nest, 0, access(offset=1)),
    "of 'x', which has": ("two_ways", TimeLoop, 0, fields(length=10)),
    "of 'x', in front": ("two_ways", TimeLoop, 1, fields(start=2)),
    # fields
    "a counter is no size": ("two_ways", TimeLoop, 0, fields(step=0)),
    "does not count its steps": ("stops", TimeLoop, 0, fields(count=None)),
    "a flag is no int64": (
        "stops", TimeLoop, 0, fields(stop=lambda loop: replace(
            loop.stop, buffer=replace(loop.stop.buffer, dtype=np.dtype("int8")))),
    ),
    "the condition is no int64": (
        "branch", If, 0, fields(condition=lambda choice: replace(
            choice.condition, buffer=replace(choice.condition.buffer, dtype=np.dtype("bool")))),
    ),
    "not every branch has threads": ("two_ways", Beside, 0, fields(many=[])),
    "its panels have another width": ("product", Pack, 0, fields(width=3)),
    "another number of operands": ("product", Pack, 0, fields(sources=lambda pack: pack.sources * 2)),
    "no room for all terms": (
        "product", Pack, 0, fields(sources=lambda pack: [replace(pack.sources[0], shape=(33, 300))]),
    ),
    "no room for all columns": (
        "product", Pack, 0, fields(sources=lambda pack: [replace(pack.sources[0], shape=(32, 1300))]),
    ),
    "it has registers, but no time": (
        "over_time", Nest, 1, lambda nest: replace(nest, time=None, stores=[
            replace(s, value=Literal(s.value.dtype, 0.0)) for s in nest.stores], updates=nest.registers),
    ),
    "not every register has an update": ("over_time", Nest, 1, fields(updates=[])),
    "time is one of its other loops": ("over_time", Nest, 1, fields(space=lambda nest: [*nest.space, nest.time])),
    "a loop comes twice": ("product", Nest, 0, fields(space=lambda nest: [nest.space[0], *nest.space])),
    "along a loop that is not its": ("product", Nest, 0, fields(lane=FOREIGN)),
    "written out of order": ("embedding", Nest, 2, fields(sequential=False)),
    "a final store is of no register": (
        "over_time", Nest, 1, fields(finals=lambda nest: [replace(nest.finals[0], value=summed(nest.registers[0]))]),
    ),
    # tiles
    "is not positive": ("product", Nest, 0, tile(unit=0)),
    "no power of two of lanes": ("product", Nest, 0, tile(lanes=6, unit=6)),
    "rows of its tile are of a loop that is not its": ("product", Nest, 0, tile(rows=FOREIGN)),
    "lanes run along its rows": ("product", Nest, 0, tile(rows=lambda nest: nest.space[-1], split=None)),
    "a block of rows, but no rows": ("product", Nest, 0, tile(rows=None, group=1)),
    "points may be computed twice, and read": ("product", Nest, 0, store(fields(add=True))),
    "points may be computed twice, and read what": (
        "product", Nest, 0, lambda nest: store(fields(add=True))(
            tile(rows=None, row_block=1, group=1, split=None, left=2)(nest)),
    ),
    "groups of tiles, but no rows": ("over_time", Nest, 1, tile(group=2)),
    "and there are none": ("over_time", Nest, 1, tile(horizontal=True)),
    "threads share a loop that is not its": ("product", Nest, 0, tile(split=FOREIGN)),
    "no multiple of a tile": (
        "product", Nest, 0, tile(split=lambda nest: nest.tile.rows, row_block=4, unit=3),
    ),
    "no multiple of a vector": ("product", Nest, 0, tile(split=lambda nest: nest.space[-1], unit=1)),
    "own rows are of a loop that is not its": ("lstm", TimeLoop, 0, lambda loop: loop.with_suites(
        [tile(own=FOREIGN)(loop.suite[0])])),
    "own rows where threads keep no rows": ("product", Nest, 0, tile(own=lambda nest: nest.space[0])),
    "no own rows where threads keep rows": ("lstm", TimeLoop, 0, lambda loop: loop.with_suites(
        [tile(own=None)(loop.suite[0])])),
    "what is left over is shared by no rows": ("product", Nest, 0, tile(rest=True)),
    "it has strips, but no time and no sums": ("lstm", Nest, 0, tile(strips=(1,))),
    "strips are of another number": ("over_time", Nest, 1, tile(strips=(8, 8))),
    "registers in strips lie nowhere": (
        "over_time", Nest, 1, lambda nest: replace(tile(strips=(64,))(nest), carried=[]),
    ),
    "something that is no nest": (
        "lstm", TimeLoop, 0, lambda loop: loop.with_suites([*loop.suite, replace(loop, suite=[])]),
    ),
    "through more or less than one loop": (
        "lstm", RowsApart, 0, lambda apart: apart.with_suites([*apart.suite, *apart.suite])),
    "are not the rows of a nest": (
        "lstm", RowsApart, 0, fields(own_rows=lambda apart: replace(apart.own_rows, size=apart.own_rows.size + 1)),
    ),
    # threads
    "does not move with": (
        "product", Nest, 0, lambda nest: access(strides={nest.space[-1]: 1})(
            tile(split=lambda n: n.space[0], unit=4)(nest)),
    ),
    "which writes at computed places|that writes at computed places": (
        "embedding", Nest, 2, tile(split=lambda nest: nest.space[-1], unit=16)),
    "touch each other's places": (
        "product", Nest, 0, lambda nest: nest.rebuilt(lambda a: replace(
            a, buffer=nest.stores[0].access.buffer, strides={k: 1 for k in a.strides}, panel=None))),
    "all threads touch one place": ("lstm", TimeLoop, 0, lambda loop: loop.with_suites(
        [tile(own=lambda nest: nest.space[-1])(loop.suite[-1])])),
    "not those of the other nests": (
        "lstm", TimeLoop, 0, lambda loop: loop.with_suites([loop.suite[0], access(strides={
            k: 2 * v for k, v in loop.suite[0].stores[0].access.strides.items()})(loop.suite[0])])),
    "reaches into that of another thread": (
        "lstm", TimeLoop, 0, lambda loop: loop.with_suites([access(strides={
            k: v if k is loop.suite[0].tile.own else 2 * v for k, v in loop.suite[0].stores[0].access.strides.items()
        })(loop.suite[0])])),
    "all blocks write one place": ("in_bands", Blocks, 0, fields(private=lambda blocks: blocks.private[1:])),
    "which another one touches": (
        "two_ways", Beside, 0, fields(branches=lambda beside: [beside.branches[0]] * 2)),
}  # fmt: skip
"""By what the verifier says: the program, the statement that is broken, and how."""


def without(buffer_name: str) -> Callable[[Program], Program]:
    """A program that does not say when a buffer is in use."""
    return lambda p: replace(p, lifetimes=[life for life in p.lifetimes if life.buffer.name != buffer_name])


def lives(buffer_name: str, **fields: Any) -> Callable[[Program], Program]:
    """A program in which a buffer is in use at other times; a field may be a function of the lifetime."""

    def changed(life: Any) -> Any:
        new = {k: v(life) if callable(v) else v for k, v in fields.items()}
        return replace(life, **new) if life.buffer.name == buffer_name else life

    return lambda p: replace(p, lifetimes=[changed(life) for life in p.lifetimes])


SAID: dict[str, tuple[str, Callable[[Program], Program]]] = {
    "'add' when that is not in use": ("weights", without("add")),
    "it touches 'branch' when": ("branch", lives("branch", last=lambda life: life.last - 1)),
    "'carry' is to last from turn to turn": ("weights", lives("carry", last=lambda life: life.first)),
    "its branch is not said to use": ("two_ways", lives("panels", branches={})),
    "'panels' lasts between calls, but": ("weights", lives("panels", first=0)),
    "is to run once, but stands in a loop": (
        "weights", lambda p: replace(p, once=[next(s for t in p.suite for s in t.every() if s not in p.suite)]),
    ),
    "and 'b' is not the same in all calls": ("product", lambda p: replace(p, once=p.suite)),
    "and 'tanh' is written in every call": ("product", lambda p: replace(p, once=p.suite)),
    "'panels' is filled once and read in every call": ("weights", lambda p: replace(p, lasting=[])),
    "no variant for one row": ("lstm", lambda p: replace(p, single={nest: nest for nest in p.single})),
    "but no loop of it is shared": ("branch", lambda p: replace(p, pieces=[s for s in p.suite if isinstance(s, Nest)])),
}  # fmt: skip
"""By what the verifier says: the program, and how what it says of its statements is broken."""


@pytest.mark.parametrize("text", SAID)
def test_what_a_program_says_of_its_statements_is_looked_at(text: str) -> None:
    name, change = SAID[text]
    program = scheduled(name)
    broken = change(program)
    assert any(re.search(text, said) for rule in RULES for _, said in rule(broken)), text
    with pytest.raises(sj.InternalError, match="a test made an invalid program"):
        verify(broken, "a test", program)


@pytest.mark.quick(16)
@pytest.mark.parametrize("text", WRONG)
def test_each_rule_refuses_a_program_that_breaks_it(text: str) -> None:
    name, kind, number, change = WRONG[text]
    broken = edited(scheduled(name), kind, change, number)
    found = [said for rule in RULES for _, said in rule(broken)]
    assert any(re.search(text, said) for said in found), f"no rule refuses it for that: {found}"
    with pytest.raises(sj.InternalError, match="a test made an invalid program"):
        verify(broken, "a test")


@pytest.mark.parametrize("terms", [0, 1])
def test_an_access_in_a_sum_is_outside_if_the_sum_has_terms(terms: int) -> None:
    x = sj.tensor((4, terms), name="x")
    program = fused_program([x], [SUM(x[:, ::-1] * 2, axes=(1,))], host.target())
    (nest,) = program.suite
    moved = nest.rebuilt(lambda a: replace(a, offset=a.offset + 9) if a.buffer.kind == "input" else a)
    said = [text for rule in RULES for _, text in rule(replace(program, suite=[moved]))]
    assert said == ["it reaches 12 of 'x', which has 4 elements"] * terms


def test_no_access_of_a_loop_without_turns_is_outside() -> None:
    """The rows begin behind the last one, and there is none of them."""
    x, none, wide = sj.tensor((4, 3), name="x"), sj.tensor((0,), "int64"), sj.tensor((3, 0), "int64")
    h = sj.scan(lambda row, h: sj.tanh(row + h), x, sj.zeros(3))[4:, 2]
    f = sj.function([x, none, wide], [GATHER(h, none, axis=0) * 2, GATHER(h, wide, axis=0).sum(1)], mode="emulate")
    first, second = f(np.ones((4, 3)), np.zeros(0, "int64"), np.zeros((3, 0), "int64"))
    assert first.shape == (0,) and second.tolist() == [0, 0, 0]
