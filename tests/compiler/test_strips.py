"""Elementwise scans: time inside or around strips of points, the same whether sizes are known or not."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit import types
from scanjit.codegen import brief
from scanjit.rewrite import run as rewrite
from scanjit.runtime import host
from scanjit.schedule.cost import rates
from scanjit.schedule.nests import Nest, jobs_of
from scanjit.schedule.pipeline import schedule
from scanjit.schedule.threads.split import Piece
from scanjit.schedule.tiles import estimates
from scanjit.target import Target
from scanjit.types import Dimension
from tests.fuzz.check import Config
from tests.pairs import pairwise
from tests.targets import with_vectors

Graph = tuple[list[sj.Node], list[sj.Node]]


def two_carries(steps: int | str, columns: int | str, dtype: str = "float32") -> Graph:
    """Two carries that need each other, through tanh and sigmoid; one is stored at each step."""
    x, (a, b, h, c) = sj.tensor((steps, columns), dtype, "x"), (sj.tensor((columns,), dtype, n) for n in "abhc")

    def step(x: sj.Node, h: sj.Node, c: sj.Node) -> tuple[sj.Node, sj.Node]:
        gate = sj.sigmoid(x + a * h)
        c = gate * c + (1 - gate) * sj.tanh(x + b * h)
        return sj.tanh(c) * gate, c

    return [x, a, b, h, c], sj.scan(step, sequences=x, outputs_info=[h, c])


def turns(steps: int | str, columns: int | str, dtype: str = "float32") -> Graph:
    """Carries that change places, backwards; one of them is stored as it was before the step."""
    x, (a, b, p, q) = sj.tensor((steps, columns), dtype, "x"), (sj.tensor((columns,), dtype, n) for n in "abpq")

    def step(x: sj.Node, p: sj.Node, q: sj.Node) -> tuple[sj.Node, ...]:
        return q, sj.tanh(a * p + b) + x, p, q * x

    return [x, a, b, p, q], sj.scan(step, sequences=x, outputs_info=[p, q, None, None], go_backwards=True)[1:]


def channels(steps: int | str, columns: int | str, dtype: str = "float32", batch: int | str = "B") -> Graph:
    """Rows of a batch with weights a channel: two loops that do not become one."""
    x, w = sj.tensor((steps, batch, columns), dtype, "x"), sj.tensor((columns,), dtype, "w")
    h = sj.tensor((batch, columns), dtype, "h")
    return [x, w, h], [sj.scan(lambda x, h: sj.sigmoid(w * h + x), sequences=x, outputs_info=[h])]


def lags(steps: int | str, columns: int | str, dtype: str = "float32") -> Graph:
    """A state that is read one step and five steps later."""
    x, w = sj.tensor((steps, columns), dtype, "x"), sj.tensor((columns,), dtype, "w")
    start = sj.tensor((5, columns), dtype, "start")

    def step(x: sj.Node, old: sj.Node, last: sj.Node) -> sj.Node:
        return sj.tanh(w * last + old) + x

    return [x, w, start], [sj.scan(step, sequences=x, outputs_info={"initial": start, "taps": [-5, -1]})]


PROGRAMS = (two_carries, turns, channels, lags)


def with_gradient(graph: Graph) -> Graph:
    """The outputs, and the gradients of all inputs."""
    inputs, outputs = graph
    return inputs, [*outputs, *sj.grad(sum((y * sj.sin(y)).sum() for y in outputs), inputs)]


def values(inputs: list[sj.Node], **sizes: int) -> list[np.ndarray]:
    rng = np.random.default_rng(sum(sizes.values()))
    shapes = [[sizes.get(str(dim), dim) for dim in node.type.shape] for node in inputs]
    return [rng.normal(size=shape).astype(node.dtype) for node, shape in zip(inputs, shapes, strict=True)]  # type: ignore[arg-type]


@functools.lru_cache(maxsize=1)
def reference(inputs: tuple[sj.Node, ...], outputs: tuple[sj.Node, ...]) -> Any:
    return sj.function(list(inputs), list(outputs), mode="reference")


def same(inputs: list[sj.Node], outputs: list[sj.Node], f: Any, **sizes: int) -> None:
    """Compare a function with the reference."""
    given = values(inputs, **sizes)
    for got, expected in zip(f(*given), reference(tuple(inputs), tuple(outputs))(*given), strict=True):
        tolerance = 1e-4 if got.dtype == np.float32 else 1e-10
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.quick(3)
@pytest.mark.parametrize(("dtype", "threads"), [("float32", 3), ("float64", 1)])
@pytest.mark.parametrize("program", PROGRAMS)
def test_strips(program: Callable[..., Graph], dtype: str, threads: int) -> None:
    """Strips of one or a few vectors, of unknown size: with no points, part of a vector, whole ones and a rest."""
    inputs, outputs = with_gradient(program("T", "N", dtype))
    with Config(width=16, threads=threads, small=True).active():
        f = sj.function(inputs, outputs, mode="emulate")
        assert "steps around strips of" in f.explain()
        for steps, columns in itertools.product((0, 1, 4), (0, 1, 3, 4, 7, 8, 9, 24, 30)):
            same(inputs, outputs, f, T=steps, N=columns, B=3)


@pytest.mark.parametrize("steps", ["T", 7, 3, 1])
def test_light_steps_are_done_several_at_a_time(steps: int | str) -> None:
    """Two steps of a point follow each other, with its carries in registers; what is left of the steps comes alone. A
    carry that is stored as it was before the step, two that change places, one that is read two steps later and a
    number for all points are the same."""
    x, (p, q) = sj.tensor((steps, "N"), "float64", "x"), (sj.tensor(("N",), "float64", name) for name in "pq")
    u = sj.tensor((steps,), "float64", "u")
    start = sj.tensor((2, "N"), "float64", "start")

    def step(x: sj.Node, u: sj.Node, p: sj.Node, q: sj.Node, two: sj.Node) -> tuple[sj.Node, ...]:
        return q, 0.5 * p + x, two - u * q, p

    info: list[Any] = [p, q, {"initial": start, "taps": [-2]}, None]
    inputs, outputs = [x, u, p, q, start], list(sj.scan(step, sequences=[x, u], outputs_info=info))
    with Config(width=16, small=True).active():
        f = sj.function(inputs, outputs, mode="emulate")
        assert (", 2 steps at a time" in f.explain()) == (steps != 1)
        for length in (0, 1, 3, 4, 5, 8, 11) if steps == "T" else (steps,):
            for columns in (1, 9, 16):
                same(inputs, outputs, f, T=length, N=columns)


def test_steps_at_a_time_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product that is a carry does not become part of the next step's sum."""
    f, h = sj.tensor(("T", "N"), "float32", "f"), sj.tensor(("N",), "float32", "h")
    found = []
    for most in (1, 4):
        monkeypatch.setattr(estimates, "MOST_STEPS", most)
        y = sj.scan(lambda f, h, g: (f * g, f + h), sequences=f, outputs_info=[h, h])[1]
        compiled = sj.function([f, h], y, name=f"at_most_{most}")
        assert (", 4 steps at a time" in compiled.explain()) == (most == 4)
        found.append(compiled(*values([f, h], T=23, N=333)))
    np.testing.assert_equal(found[1], found[0])


def printed(graph: Graph) -> str:
    with Config(width=16, small=True).active():
        shown = sj.dprint(sj.function(*graph, mode="emulate"), file="str", stage="blocks")
    assert shown is not None
    return shown


def test_strips_are_printed() -> None:
    assert "strips of min(N, 4) i0 where" in printed(turns("T", "N"))


LAST_FIRST = ", the last point first"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [(1024, f"{LAST_FIRST};"), (1025, " i0;"), ("N", f"{LAST_FIRST} where ")],
)
def test_short_rows_are_read_in_one_direction(columns: int | str, expected: str) -> None:
    """Backwards in time and in the row, where a row of float32 is no longer than a page of 4096 bytes."""
    forward = two_carries("T", columns)
    assert expected in printed(with_gradient(forward))
    assert LAST_FIRST not in printed(forward)
    x, h = sj.tensor(("T", columns), "float32", "x"), sj.tensor((columns,), "float32", "h")
    last = sj.scan(lambda x, h: sj.tanh(h) + x, sequences=x, outputs_info=[h], go_backwards=True)[-1]
    assert expected in printed(([x, h], [last]))


@pytest.mark.quick(6)
@pairwise(program=PROGRAMS, columns=[0, 1, 4, 9, 16, 30], threads=[1, 2])
def test_known_columns(program: Callable[..., Graph], columns: int, threads: int) -> None:
    inputs, outputs = with_gradient(program("T", columns))
    with Config(width=16, small=threads == 1, threads=threads).active():
        f = sj.function(inputs, outputs, mode="emulate")
        for steps in (0, 1, 4):
            same(inputs, outputs, f, T=steps, B=3)


@pytest.mark.quick(2)
@pytest.mark.parametrize("program", PROGRAMS)
def test_compiled(program: Callable[..., Graph]) -> None:
    inputs, outputs = with_gradient(program("T", "N"))
    f = sj.function(inputs, outputs)
    assert "steps around strips of" in f.explain()
    for columns in (5, 257, 1100):
        same(inputs, outputs, f, T=7, N=columns, B=2)


def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread's share may be less than two vectors, where all points are more."""
    for name in ("SMALLEST_NEST", "WAKING", "LEAST_GAIN"):
        monkeypatch.setattr(rates, name, 0)
    f, h = sj.tensor(("T", "N"), "float32", "f"), sj.tensor(("N",), "float32", "h")
    y = sj.scan(lambda f, h: f * h + f, sequences=f, outputs_info=[h])  # (a product that may become part of a sum)
    compiled = sj.function([f, h], [y, *sj.grad((y * y).sum(), [f, h])])
    assert "steps around strips of" in compiled.explain()
    for columns in (33, 47, 70):
        given, found = values([f, h], T=33, N=columns), []
        for sj.config.threads in (1, 2, 3):
            found.append(compiled(*given))
        for results in found[1:]:
            np.testing.assert_equal(results, found[0])


@pytest.mark.parametrize("columns", ["N", 16])
def test_scans_in_steps(columns: int | str) -> None:
    """A thread that keeps its columns through the steps around may have any of them."""
    x, h = sj.tensor(("T", 3, columns), "float64", "x"), sj.tensor((columns,), "float64", "h")

    def step(x: sj.Node, h: sj.Node) -> sj.Node:
        return sj.scan(lambda row, g: sj.tanh(g + row), sequences=x, outputs_info=[h])[-1]

    inputs, outputs = with_gradient(([x, h], [sj.scan(step, sequences=x, outputs_info=[h])]))
    for threads in (1, 3):
        with Config(width=16, threads=threads, small=True).active():
            f = sj.function(inputs, outputs, mode="emulate")
            assert "steps around strips of" in f.explain()
            for size in (1, 7, 8, 20) if columns == "N" else (16,):
                same(inputs, outputs, f, T=2, N=size)


def test_stretches_of_time() -> None:
    """Carries go on where the stretch before has left them: with checkpoints, and in blocks with what follows."""
    x, w, h = sj.tensor(("T", "N"), "float64", "x"), sj.vector("w", "float64"), sj.tensor(("N",), "float64", "h")
    inputs = [x, w, h]

    def cost(checkpoint: Any) -> sj.Node:
        c, y = sj.scan(
            lambda x, h, g: (sj.sigmoid(h * 0.5 + x), sj.tanh(g - h)),
            sequences=x * sj.exp(x),
            outputs_info=[h, h],
            checkpoint=checkpoint,
        )
        return (sj.sin(c) * y).sum() + (y[-1] * w[0]).sum()

    outputs = [sj.grad(cost(None), x), *sj.grad(cost(3), [x, h])]
    with Config(width=16, small=True).active():
        f = sj.function(inputs, outputs, mode="emulate")
        for steps, columns in itertools.product((1, 2, 7, 11), (1, 5, 12)):
            given = values(inputs, T=steps, N=columns, **{str(w.type.shape[0]): 2})
            expected = sj.function(inputs, outputs, mode="reference")(*given)
            for got, other in zip(f(*given), expected, strict=True):
                np.testing.assert_allclose(got, other, rtol=1e-10, atol=1e-10)


# ---- the choice ------------------------------------------------------------------------------------------------------


def decisions(graph: Graph) -> list[str]:
    """Where time is in each nest of a function, and the estimates."""
    text = sj.function(*graph, mode="emulate").explain()
    found = re.findall(r"steps (inside|around strips)(?:.*)(a vector's step takes .* in strips)", text)
    return [f"{where}: {costs}" for where, costs in found]


@pytest.mark.quick(2)
@pytest.mark.parametrize("program", PROGRAMS)
def test_known_sizes_change_no_choice(program: Callable[..., Graph]) -> None:
    unknown = decisions(with_gradient(program("T", "N")))
    assert len(unknown) >= 2 and all("around" in line for line in unknown)
    for steps, columns in (("T", 256), ("T", 257), ("T", 1000), ("T", 4096), (257, 65536), (1000, "N"), (300, 300)):
        assert decisions(with_gradient(program(steps, columns))) == unknown, (steps, columns)


@pytest.mark.parametrize("columns", [1, 2, 16, 23])
def test_one_vector_keeps_its_carries_in_registers(columns: int) -> None:
    with Config(width=64).active():
        assert all(line.startswith("inside") for line in decisions(two_carries("T", columns)))


def chain_of_functions(size: int | str) -> Graph:
    """A map whose operations wait for each other."""
    x = sj.tensor((size,), "float32", "x")
    y = x
    for _ in range(4):
        y = sj.tanh(y * x)
    return [x], [y]


@pytest.mark.parametrize("threads", [1, 3])
def test_vectors_side_by_side(threads: int) -> None:
    """Vectors of a map or a strip that fill no tile, and one that is partly empty, come with tiles of four vectors. A
    thread's share begins and ends at any vector."""
    with Config(width=16, threads=threads, small=True).active():
        inputs, outputs = chain_of_functions("N")
        f, g = (sj.function(*graph, mode="emulate") for graph in ((inputs, outputs), two_carries("T", "N")))
        assert all("4 lanes, 4 vectors side by side" in function.explain() for function in (f, g))
        for size in (0, 1, 4, 15, 16, 17, 28, 33, 64, 101):
            same(inputs, outputs, f, N=size)
            same(*two_carries("T", "N"), g, T=3, N=size)


def test_a_carry_is_loaded_once_for_each_vector() -> None:
    leaves, outputs = two_carries("T", 256)
    text = sj.function(leaves, outputs, mode="emulate").source
    for body in re.split(r"for \w+ in range", text):
        loads = re.findall(r"= (load_f32x\d+\(.*\))", body)
        assert len(loads) == len(set(loads))


@pytest.mark.parametrize("columns, vectors", [(3, 1), (4, 1), (8, 2), (15, 2), (16, 4), (64, 4), (101, 4)])
def test_no_more_vectors_side_by_side_than_a_row_fills(columns: int, vectors: int) -> None:
    with Config(width=16).active():
        text = sj.function(*chain_of_functions(columns), mode="emulate").explain()
    found = re.search(r"(\d) vectors side by side", text)
    assert int(found[1] if found else 1) == vectors


def test_operations_that_do_not_wait_have_one_vector() -> None:
    """Of a wide sum, the processor finds enough to do in one vector; a second one would only take registers."""
    x = sj.tensor(("N", 8), "float32", "x")
    y = sum((sj.tanh(x[:, i]) for i in range(8)), start=sj.zeros((x.shape[0],), "float32"))
    assert "side by side" not in sj.function([x], [y], mode="emulate").explain()


def nest_with_time(columns: int | str, batch: int | str) -> Nest:
    """The nest of the scan over channels."""
    inputs, outputs = channels("T", columns, batch=batch)
    program = schedule(inputs, rewrite(outputs).outputs, with_vectors(64))
    return next(leaf for leaf in jobs_of(program.suite) if isinstance(leaf, Nest) and leaf.time is not None)


def evaluated(dim: Dimension, batch: int, columns: int) -> int:
    sizes = {"B": batch, "N": columns, "T": 100}
    return types.evaluate(dim, {atom: sizes[atom.name] for atom in types.atoms(dim)})


def test_few_points_have_time_inside() -> None:
    """A call with few points does what a function does that knows how many there are, or only the batch, or only the
    columns."""
    unknown = {(batch, columns): nest_with_time(columns, batch) for batch in ("B", 1, 4) for columns in ("N", 12, 24)}
    for batch, columns in itertools.product((1, 4, 9, 64), (9, 12, 23, 24, 40, 100)):
        tile = nest_with_time(columns, batch).tile
        assert tile is not None
        for (b, n), nest in unknown.items():
            assert nest.tile is not None
            if b in ("B", batch) and n in ("N", columns):
                strips = bool(nest.tile.strips) and evaluated(nest.tile.many, batch, columns) == 1
                assert strips == bool(tile.strips), (batch, columns, b, n)


@pytest.mark.parametrize("columns", [40, 300])
def test_pieces_are_strips_at_least(columns: int) -> None:
    """A long nest is computed in pieces, to end soon. But the rows of a strip stay together."""
    nest = nest_with_time("N", "B")
    assert nest.tile is not None
    atoms = {atom for dim in nest.dims for atom in types.atoms(dim)}
    sizes = {atom: {"B": 10_000, "N": columns, "T": 10**6}.get(atom.name, 0) for atom in atoms}
    rows = types.evaluate(nest.tile.strips[0], sizes)
    assert 1 < rows < 10_000
    assert Piece.of(nest, types.size()).value(types.Numbers(sizes)) == rows


@pytest.mark.parametrize("columns", [16, 40])
def test_short_loops_of_steps_do_not_look(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A known number of columns is short also where a thread has some of them: no loop over stretches around them."""
    monkeypatch.setattr(brief, "LITTLE_KNOWN", -1)  # one thread would compute so few
    x, w, h = (
        sj.tensor(("T", 1, columns), "float32"),
        sj.tensor((columns,), "float32"),
        sj.tensor((1, columns), "float32"),
    )
    y = sj.scan(lambda x, h: sj.sigmoid(w * h + x), sequences=x, outputs_info=[h])
    with Config(width=64).active():
        source = sj.function([x, w, h], sj.grad((y * y).sum(), w), mode="emulate").source
    steps = [text for text in source.split("def ") if not text.startswith("loop_")]
    assert columns > 16 or any("low" in text for text in steps)  # more columns are a loop of one thread
    assert not any("low" in text and "stretch" in text for text in steps)


def test_lengths_fit_what_is_near() -> None:
    """Strips are whole rows where these are short, and whole vectors of a row where it is long."""
    near = replace(with_vectors(16), level2_bytes=6400)  # a point of a row of x and h, before and after, and w has 16
    with host.using(near):
        for columns, expected in ((10, "min(B, 10) x 10"), (64, "min(B, 1) x 64"), (4096, "min(B, 1) x 100")):
            text = sj.function(*channels("T", columns), mode="emulate").explain()
            assert f"around strips of {expected} points" in text


@pytest.mark.parametrize(
    ("step", "stored", "near", "far"),
    [
        (lambda x, h: 0.5 * h + x, True, 50, 100),
        (lambda x, h: 0.5 * h + x, False, 74, 150),
        (lambda x, h: sj.tanh(h) + x, True, 100, 100),
    ],
)
def test_strips_are_longer_where_rows_come_from_memory(
    step: Callable[[sj.Node, sj.Node], sj.Node], stored: bool, near: int, far: int
) -> None:
    """What they read in a step fits into the second cache then, and into the first one if rows stay in the third;
    unless the step computes longer than it takes to fetch its carries."""
    with host.using(replace(with_vectors(16), level1_bytes=1200, level2_bytes=9600)):
        for steps, expected in ((3, near), (300, far)):
            x = sj.tensor((steps, 1000), "float64", "x")
            ys = sj.scan(step, x, sj.zeros(1000, "float64"))
            text = sj.function([x], ys if stored else ys[-1], mode="emulate").explain()
            assert f"around strips of {expected} points" in text


def test_no_points() -> None:
    x = sj.tensor(("T", 5), name="x")
    h = sj.scan(lambda row, h: sj.tanh(row + h), x, sj.zeros((0, 5)))
    assert sj.function([x], h, mode="emulate")(np.zeros((4, 5))).shape == (4, 0, 5)


@pytest.mark.parametrize("masks", [False, True])
def test_no_points_in_a_step(masks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Target, "has_masks", masks)
    x, w = sj.tensor(("T", 3, 0), name="x"), sj.tensor((0, 0), name="w")
    h = sj.scan(lambda row, h: sj.maximum(row + h, 0) @ w, x, sj.zeros((3, 0)))
    assert sj.function([x, w], h, mode="emulate")(np.zeros((4, 3, 0)), np.zeros((0, 0))).shape == (4, 3, 0)


@pytest.mark.quick(10)
@pairwise(program=PROGRAMS, columns=["N", 3, 9, 14, 30], masks=[False, True])
def test_lanes_that_are_left(
    program: Callable[..., Graph], columns: int | str, masks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where masks are slow, the points that whole vectors leave are computed in vectors of fewer lanes. A thread may
    have no points outside of strips."""
    monkeypatch.setattr(Target, "has_masks", masks)
    inputs, outputs = with_gradient(program("T", columns))
    with Config(width=16, threads=2, small=columns == "N").active():
        f = sj.function(inputs, outputs, mode="emulate")
        for size in (0, 1, 2, 3, 5, 7, 8, 13, 31) if columns == "N" else (1,):
            same(inputs, outputs, f, T=4, N=size, B=3)
    narrow = "the points that are left in narrower vectors" in (sj.dprint(f, file="str", stage="blocks") or "")
    assert narrow is not masks


@pytest.mark.parametrize("masks", [False, True])
def test_lanes_that_are_left_in_a_step(masks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in a step of several nests, whose loads reach to neighbours."""
    monkeypatch.setattr(Target, "has_masks", masks)
    u = sj.tensor(("N",), name="u")

    def step(u: Any) -> Any:
        return sj.concatenate([u[:1], u[1:-1] + 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2]), u[-1:]])

    last = sj.scan(step, outputs_info=u, n_steps=5)[-1]
    f, wanted = (sj.function([u], last, mode=mode) for mode in ("emulate", "reference"))
    for size in (2, 3, 4, 5, 6, 7, 8, 9, 12, 17):
        given = np.arange(size) ** 2.0
        np.testing.assert_allclose(f(given), wanted(given), rtol=1e-12, atol=1e-13)
    narrow = "the points that are left in narrower vectors" in (sj.dprint(f, file="str", stage="blocks") or "")
    assert narrow is not masks
