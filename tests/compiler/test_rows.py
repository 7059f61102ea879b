"""Loops whose rows never meet: which these are, and that the numbers stay the same where threads keep their rows."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit import types
from scanjit.codegen.generate import generate
from scanjit.config import config
from scanjit.rewrite import run as rewrite
from scanjit.schedule.cost import rates
from scanjit.schedule.cost.statements import costs, prices
from scanjit.schedule.nests import Blocks, RowsApart
from scanjit.schedule.nests.nest import nests_of
from scanjit.schedule.pipeline import schedule
from scanjit.schedule.threads.rows import with_rows
from scanjit.schedule.threads.sharing import sharing
from scanjit.schedule.threads.teams import Way
from scanjit.target import Target, target_for
from tests.compare import all_close
from tests.fuzz.check import Config

H = 5
Step = Callable[..., Any]


def loop(
    step: Step, batch: Any = "B", columns: Any = H, mode: str = "emulate", gradient: bool = True
) -> sj.CompiledFunction:
    """A loop over `step(x, h, w)`, with its gradient."""
    x, w = sj.tensor(("T", batch, columns), "float32", "x"), sj.tensor((columns, columns), "float32", "w")
    h = sj.scan(lambda x, h: step(x, h, w), x, x[0] * 0.5)
    return sj.function([x, w], [h, *(sj.grad((h * h).sum(), [x, w]) if gradient else [])], mode=mode)


def network(x: Any, h: Any, w: Any) -> Any:
    return np.tanh(x + h @ w)


def deep(x: Any, h: Any, w: Any) -> Any:
    """Several products a step, of different widths: temporaries whose memory could be shared."""
    a = np.tanh(h @ w)
    b = np.tanh(a @ w[:, :2])
    c = np.tanh(b @ w[:2, 1:4])
    return c @ w[1:4, :] + x


def kept(f: sj.CompiledFunction) -> int:
    """How many loops there are whose rows threads may keep."""
    return sum(len(list(with_rows(stage.program.suite))) for stage in f.executable.stages)


def arguments(T: int = 4, B: int = 7) -> list[np.ndarray]:
    rng = np.random.default_rng(T * B)
    return [(rng.standard_normal(shape) * 0.5).astype("float32") for shape in ((T, B, H), (H, H))]


@pytest.fixture(params=[0.0, 1e9], ids=["shared", "kept"])
def meeting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[float]:
    """What a meeting of threads is said to cost: rows are kept, or not."""
    before = config.threads
    for name, value in (("MEETING", request.param), ("WAKING", 0.0), ("LEAST_GAIN", 0.0)):
        monkeypatch.setattr(rates, name, value)
    monkeypatch.setattr(rates, "SMALLEST_NEST", 0)
    yield request.param
    config.threads = before


# ---- which loops ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [network, deep])
def test_rows_that_never_meet(step: Step) -> None:
    f = loop(step)
    assert kept(f) == f.explain().count("its rows never meet; whether each thread computes its own rows") == 2


def test_sizes_may_be_known_or_not() -> None:
    assert kept(loop(network)) == kept(loop(network, batch=8)) == kept(loop(network, columns="H")) == 2


@pytest.mark.parametrize(
    "step",
    [
        lambda x, h, w: np.tanh(x + (h - h.mean(0)) @ w),
        lambda x, h, w: np.tanh(x + h[::-1] @ w),
        lambda x, h, w: np.tanh(x + sj.concatenate([h[1:], h[:1]]) @ w),
        lambda x, h, w: np.tanh(x + h @ (h.T @ h) @ w),
    ],
)
def test_rows_that_meet(step: Step) -> None:
    assert kept(loop(step)) == 0


@pytest.mark.parametrize("columns", [None, 1])
def test_a_row_that_all_rows_read(columns: int | None) -> None:
    """Rows of one element: that all read the first one, and each its own, cannot be told by how far apart they are."""
    x = sj.tensor(("T", "B") if columns is None else ("T", "B", columns))
    assert kept(sj.function([x], sj.scan(lambda x, h: np.tanh(x + h * h[0]), x, x[0]), mode="emulate")) == 0


def test_loops_that_end_early_are_left() -> None:
    x = sj.tensor(("T", "B", H))
    y = sj.scan(lambda x, h: (np.tanh(x + h @ np.eye(H)), sj.until((x > 9).any())), x, x[0])
    assert kept(sj.function([x], y, mode="emulate")) == 0


# ---- the same numbers ----------------------------------------------------------------------------------------------


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    "step, gradient, batch", [(network, True, "B"), (network, False, 28), (deep, True, "B"), (deep, False, "B")]
)
@pytest.mark.parametrize("shared", [False, True])
def test_threads_in_turns(step: Step, gradient: bool, batch: Any, shared: bool, meeting: float) -> None:
    """With threads at different steps, and temporaries in the memory that is planned for them. Tiles have 2 and 4 rows,
    and what each thread has is no multiple of these: a tile that touches another's rows is a race, which is a fault."""
    x, w = arguments(3, 29 if batch == "B" else batch)
    expected = loop(step, batch, gradient=gradient)(x, w)
    with Config(width=16, threads=3, shared=shared).active():
        rates.MEETING = meeting
        f = loop(step, batch, gradient=gradient)
        got = f(x, w)
    decided = [sized.sharing.rows_apart for stage in f.executable.stages for sized in stage.known.values()]
    assert decided and all(value == (meeting > 0) for rows in decided for value in rows.values())
    np.testing.assert_equal(_list(got), _list(expected))


def in_blocks(step: Step, batch: Any, last: bool, columns: Any = H) -> sj.CompiledFunction:
    """A loop in blocks of time, with the product that it reads. Its batch is the first or the second axis of `xs`."""
    shape = (batch, "T", columns) if last else ("T", batch, columns)
    xs, w = sj.tensor(shape, "float32", "xs"), sj.tensor((columns, columns), "float32", "w")
    x = xs.transpose(1, 0, 2) if last else xs
    h = sj.scan(lambda x, h: step(x @ w[::-1], h, w), x, sj.zeros(x.shape[1:], "float32"))
    return sj.function([xs, w], [h, *sj.grad((h * h).sum(), [xs, w])], mode="emulate")


def parts(f: sj.CompiledFunction) -> list[int]:
    """For the statements of which threads may keep the rows: how many nests stand beside the loop."""
    every = [inner for stage in f.executable.stages for outer in stage.program.suite for inner in outer.every()]
    return [len(each.suite) - 1 for each in every if isinstance(each, RowsApart)]


@pytest.mark.quick(4)
@pytest.mark.parametrize("step", [network, deep])
@pytest.mark.parametrize("batch", ["B", 8])
@pytest.mark.parametrize("last", [False, True])
def test_products_of_a_block_go_with_the_rows_of_its_loop(step: Step, batch: Any, last: bool, meeting: float) -> None:
    """The rows come once for each step of the block: in a nest that goes over steps and rows as if they were one."""
    rng = np.random.default_rng(3)
    size = 29 if batch == "B" else batch
    xs, w = (rng.standard_normal(n).astype("float32") for n in ((size, 6, H) if last else (6, size, H), (H, H)))
    expected = in_blocks(step, batch, last)(xs, w)
    with Config(width=16, threads=3, small=True).active():
        rates.MEETING = meeting
        f = in_blocks(step, batch, last)
        got = f(xs, w)
    assert max(parts(f)) > 0
    decided = [sized.sharing.rows_apart for stage in f.executable.stages for sized in stage.known.values()]
    assert meeting == 0 or all(value for rows in decided for value in rows.values())
    all_close(got, expected, rtol=2e-5, atol=1e-6)


def test_a_loop_with_variants_for_short_rows_shares_memory_with_its_products(meeting: float) -> None:
    """The variant reads what the product before it has written for all threads."""
    rng = np.random.default_rng(4)
    for columns in (3, 40):
        xs, w = ((rng.standard_normal(n) * 0.1).astype("float32") for n in ((6, 9, columns), (columns, columns)))
        expected = in_blocks(network, "B", False, "H")(xs, w)
        with Config(width=16, threads=3, small=True).active():
            rates.MEETING = meeting
            got = in_blocks(network, "B", False, "H")(xs, w)
        all_close(got, expected, rtol=2e-5, atol=1e-6)


def test_points_of_own_rows_that_whole_vectors_leave(meeting: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """All points of a step fill whole vectors. Those of a thread's own rows do not, and what is left of them goes into
    vectors of fewer lanes."""
    monkeypatch.setattr(Target, "has_masks", False)

    def step(x: Any, h: Any, w: Any) -> Any:
        return np.maximum(x + h, 0) @ w

    given = arguments(3, 100)
    expected = loop(step, 100, gradient=False)(*given)
    with Config(width=16, threads=3).active():
        rates.MEETING = meeting
        f = loop(step, 100, gradient=False)
        np.testing.assert_array_equal(f(*given), expected)
    assert "the points that are left in narrower vectors" in (sj.dprint(f, file="str", stage="blocks") or "")


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_threads_at_different_steps_of_a_loop_that_ends_early(shared: bool, nested: bool) -> None:
    """Threads do not meet in steps: a late one finds out by itself which step was the last. In a loop of such loops,
    they meet after each: memory that it looks at would have other values later."""

    def grow(g: sj.Tensor) -> tuple[sj.Tensor, sj.Tensor]:
        new = g @ (1.5 * np.eye(H)) + 0.1
        return new, sj.until(abs(new).max() > 3)

    def step(x: sj.Tensor, h: sj.Tensor) -> sj.Tensor:
        gs = sj.scan(grow, outputs_info=h + x, n_steps=9)
        return gs[-1] / 4 + gs.shape[0]

    def made() -> Any:
        x = sj.tensor(("T", "B", H))
        return sj.function([x], sj.scan(step, x, x[0]) if nested else step(x[0], x[1]), mode="emulate")

    x = arguments(5, 5)[0]
    expected = made()(x)
    with Config(width=16, threads=3, shared=shared).active():
        f = made()
        got = f(x)
    np.testing.assert_array_equal(got, expected)
    meetings = [line for line in f.source.splitlines() if "barrier(" in line]
    loops = [line for line in f.source.splitlines() if "for step" in line]
    inside = len(loops[-1]) - len(loops[-1].lstrip())
    assert [len(line) - len(line.lstrip()) for line in meetings] == [inside] * nested


@pytest.mark.parametrize("batch", [1, 2, 9])
def test_compiled(batch: int, meeting: float) -> None:
    f, found = loop(network, mode="numba"), []
    for config.threads in (1, 2, 5):
        found.append(f(*arguments(6, batch)))
    for other in found[1:]:
        np.testing.assert_equal(found[0], other)


def _list(results: Any) -> list[np.ndarray]:
    return results if isinstance(results, list) else [results]


# ---- what is decided -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "steps", "batch", "kept", "wanted"),
    [
        pytest.param(640, 200, 64, False, True, id="many steps"),
        pytest.param(640, 200, 20, False, False, id="a row tile more makes one thread much slower"),
        pytest.param(640, 5, 64, False, False, id="too few steps to take the weights from another core"),
        pytest.param(640, 5, 64, True, True, id="weights that each core has from earlier calls"),
        pytest.param(1024, 200, 64, True, False, id="weights of which little stays in the cache of a core"),
    ],
)
def test_when_threads_have_rows_of_their_own(columns: int, steps: int, batch: int, kept: bool, wanted: bool) -> None:
    x, w = sj.tensor(("T", "B", columns), "float32"), sj.tensor((columns, columns), "float32")
    value = sj.shared(np.zeros((columns, columns), "float32")) if kept else w
    y = sj.scan(lambda x, h: np.tanh(x + h @ value), x, x[0])
    f = sj.function([x] if kept else [x, w], y, mode="emulate")
    (stage,) = f.executable.stages
    atoms = {atom.name: atom for atom in stage.table.atoms if types.is_named(atom)}
    sizes = {atoms["T"]: steps, atoms["B"]: batch}
    decided = sharing(stage.layout.costs, types.Numbers(sizes), Way(2), near_bytes=2**20)
    assert list(decided.rows_apart.values()) == [wanted]


@pytest.mark.parametrize(("size", "turns"), [(1, 1), (2, 1), (29, 6)])
def test_a_thread_that_has_all_rows_takes_those_of_all_steps_at_once(size: int, turns: int, meeting: float) -> None:
    """The only row of a step would else be computed in a register tile of several rows."""
    rng = np.random.default_rng(3)
    with Config(width=16, threads=3, small=True).active():
        rates.MEETING = meeting
        f = in_blocks(network, "B", False)
        f(*(rng.standard_normal(n).astype("float32") for n in ((6, size, H), (H, H))))
    (stage,) = f.executable.stages
    (sized,) = stage.known.values()
    found = []
    for function in f.source.split("\ndef "):
        begin = re.search(function.split("(")[0] + r"\(table \+ (\d+)", f.source)
        entries = re.findall(r"(n\d+) = load_i64\(table \+ (\d+)\)", function)
        numbers = {name: sized.entries[(int(begin[1] if begin else 0) + int(at)) // 8] for name, at in entries}
        for count in re.findall(r"for time\d+ in range\((.+)\):", function):
            found.append(eval(count, {}, {**numbers, "rows0": 6}))
    assert found
    assert set(found) == {turns if meeting else 1}


@pytest.mark.parametrize("size", [7, 24, 40, 64, 200, 512])
def test_the_sums_of_one_row_do_not_wait_for_each_other(size: int) -> None:
    """The variant for one row has four vectors of columns, or as many as there are."""
    x, w = sj.tensor(("T", "B", size), "float32", "x"), sj.tensor((size, size), "float32", "w")
    target = target_for("x86_64-linux-gnu", "znver3", "+avx2,+fma")
    program = schedule([x, w], rewrite([sj.scan(lambda row, h: np.tanh(row + h @ w), x, x[0])]).outputs, target)
    for nest, one in program.single.items():
        assert nest.tile is not None
        assert one.tile is not None
        assert one.tile.vectors == max(nest.tile.vectors, 4 if size >= 32 else 2 if size >= 16 else 1)


@pytest.mark.parametrize("size", [1, 3, 4, 5, 8])
def test_known_rows_that_are_too_few_to_share(size: int, rng: np.random.Generator) -> None:
    """One thread has all of them, and computes those of all steps before a loop of known rows."""
    xs, w = (rng.uniform(-0.3, 0.3, n).astype("float32") for n in ((9, size, 24), (24, 24)))
    x, u = sj.tensor(("T", size, 24), "float32", "x"), sj.tensor((24, 24), "float32", "u")
    for given in (np.tanh(x) + x, x @ u, np.tanh(x @ u) * 2):
        h = sj.scan(lambda row, h: np.tanh(row + h @ u), given, sj.zeros((size, 24), "float32"))
        emulated, reference = (sj.function([x, u], h, mode=mode) for mode in ("emulate", "reference"))
        for config.threads in (1, 2):
            np.testing.assert_allclose(emulated(xs, w), reference(xs, w), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [96, 512, 1024])
def test_pieces_of_columns_have_whole_register_tiles(size: int) -> None:
    """Columns that fill no tile are computed one vector at a time: with few sums, which wait for each other."""
    x, w = sj.tensor(("T", "B", size), "float32", "x"), sj.tensor((size, 4 * size), "float32", "w")
    ys = sj.scan(lambda row, h: np.tanh(row @ w[:, :size] + h @ w[:, size : 2 * size]), x, x[0])
    target = target_for("x86_64-linux-gnu", "znver3", "+avx2,+fma")
    text = "".join(f.text for f in generate(schedule([x, w], rewrite([ys]).outputs, target), "f").functions)
    widths = {int(n) for n in re.findall(r"range\(first\d+, last\d+, (\d+)\)", text)} - {target.lanes(4)}
    pieces = [int(n) for n in re.findall(r"first_piece\(.+, (\d+), line\)", text)]
    assert any(pieces)
    assert all(any(piece % width == 0 for width in widths) for piece in pieces)


@pytest.mark.parametrize(("rows", "size", "steps"), [(32, 64, 32), (32, 512, 4), (32, 2048, 32), (512, 2048, 2)])
def test_a_matrix_that_fits_no_cache_is_read_seldom(rows: int, size: int, steps: int) -> None:
    """Stretches of time are as long as the cache allows, and longer for a matrix that comes from memory anyway."""
    x = sj.tensor((100, rows, size), "float32", "x")
    w, u = (sj.tensor((size, size), "float32", name) for name in "wu")
    ys = sj.scan(lambda row, h: np.tanh(row @ w + h @ u), x, sj.zeros((rows, size), "float32"))
    program = schedule([x, w, u], rewrite([ys]).outputs, target_for("x86_64-linux-gnu", features="+avx2"))
    text = "".join(function.text for function in generate(program, "f").functions)
    assert re.findall(r"rows0 = min\((\d+)", text) == [str(steps)]


def test_blocks_cost_what_their_steps_do() -> None:
    """However many steps the last block has."""
    x, w = sj.tensor(("T", 32, 64), "float32", "x"), sj.tensor((64, 64), "float32", "w")
    ys = sj.scan(lambda row, h: np.tanh(row @ w + h), x, sj.zeros((32, 64), "float32"))
    program = schedule([x, w], rewrite([ys]).outputs, target_for("x86_64-linux-gnu", features="+avx2"))
    priced = prices(program.suite)

    def operations(steps: int) -> float:
        number = types.Numbers(dict.fromkeys(types.atoms(x.type.shape[0]), steps))
        return sum(cost.operations * cost.runs for cost in costs(priced, number))

    assert any(isinstance(statement, Blocks) for statement in program.suite)
    for steps in range(32, 130):
        assert operations(steps) == pytest.approx(steps / 32 * operations(32), rel=0.06)


@pytest.mark.parametrize(("columns", "dtype"), [(512, "float32"), (2048, "float32"), (1024, "float64")])
def test_pieces_of_short_rows_have_few_tiles(columns: int, dtype: str) -> None:
    """Else the next thread's piece is fetched with them. Long rows are computed in pieces that fill the cache."""
    target = target_for("x86_64-linux-gnu", features="+avx2")

    def most(columns: int) -> int:
        x, y = sj.tensor((64, "B"), dtype, "x"), sj.tensor((64, columns), dtype, "y")
        program = schedule([x, y], rewrite([x.T @ y]).outputs, target)
        return max(nest.tile.group for nest in nests_of(program.suite))

    assert most(columns) == 4 < most(16 * columns)


def test_numbers_with_more_are_those_of_all_sizes() -> None:
    B, T = types.size("B"), types.size("T")
    (b,), (t,) = types.atoms(B), types.atoms(T)
    fewer = types.Numbers({b: 7})
    dims = [2 * B + 1, B // 2, types.maximum(B, 9), types.minimum(B // 2, T) * T, (B + T) // types.maximum(T, 2)]
    assert [fewer(dim) for dim in dims[:3]] == [15, 3, 9]
    for steps in (1, 5):
        more = fewer.with_more({t: steps})
        assert [more(dim) for dim in dims] == [types.Numbers({b: 7, t: steps})(dim) for dim in dims]
    with pytest.raises(KeyError):
        fewer(T)


def test_remainder() -> None:
    B, T = types.size("B"), types.size("T")
    assert types.remainder(3 * B * T + 8 * B + 5, 4 * B) == 3 * B * T + 5
    assert types.remainder(8 * B * T, 4 * B) == 0
    assert [types.remainder(number, 4) for number in (12, 13, -3)] == [0, 1, 1]


def test_a_quotient_is_exact_only_if_it_is_for_all_sizes() -> None:
    B, T = types.size("B"), types.size("T")
    assert types.exact_quotient(6 * B * T + 2 * B, 2 * B) == 3 * T + 1
    assert types.exact_quotient(6 * B, 3) == 2 * B
    assert types.exact_quotient(B - T, B - T) == 1
    assert types.exact_quotient(-12, 3) == -4
    for dim, divisor in ((6 * B, 4 * B), (6 * B, T), (6, B), (6, 4), (6, 0), (B * T + 1, B), (2 * B - 2 * T, B - T)):
        assert types.exact_quotient(dim, divisor) is None


def test_what_was_decided_of_two_sizes_is_not_decided_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each layer of a stack asks for the same minimum."""
    n, m = types.size("n"), types.size("m")
    pairs = [(n, m), (types.maximum(n - 1, 1), m), (n + m, 2 * m + 1)]
    known = [(types.minimum(*pair), types.maximum(*pair)) for pair in pairs]

    def again(dim: types.Dimension) -> bool:
        raise AssertionError(dim)

    monkeypatch.setattr(sys.modules["scanjit.types.dims"], "not_negative", again)
    for (a, b), (least, most) in zip(pairs, known, strict=True):
        assert types.minimum(a, b) == types.minimum(b, a) == least
        assert types.maximum(a, b) == types.maximum(b, a) == most
