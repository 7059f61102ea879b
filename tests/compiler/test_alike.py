"""Nests that are alike have one source: it is the one that each of them would have by itself. So have the functions of
loops."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

import scanjit as sj
from scanjit import types
from scanjit.codegen import nest, statements
from scanjit.codegen.generate import generate
from scanjit.codegen.source import RowRange, Source
from scanjit.ops.elementwise import ADD, MUL
from scanjit.ops.probe import has_probes
from scanjit.runtime import host
from scanjit.runtime.program import Staged
from scanjit.schedule.nests import (
    Access,
    Apply,
    Buffer,
    Correspondence,
    Likeness,
    Literal,
    Load,
    Nest,
    NestLoop,
    Reduce,
    Store,
    Tile,
)
from scanjit.schedule.nests.buffers import with_room
from tests.compare import all_close
from tests.fuzz.programs import program
from tests.golden.programs import PROGRAMS
from tests.targets import with_vectors


def stack(layers, directions=2):
    """Recurrent layers on top of each other, each in two directions, with the gradients of all weights."""
    x = h = sj.tensor(("T", "B", 8), "float32", "x")
    weights = []
    for layer in range(layers):
        made = []
        for direction in range(directions):
            size = h.type.shape[2]
            w = sj.tensor((size, 16), "float32", f"w{layer}{direction}")
            u = sj.tensor((16, 16), "float32", f"u{layer}{direction}")
            start = np.zeros((1, 16), "float32") + x[0, :, :1] * 0
            made.append(
                sj.scan(
                    lambda x_t, h, w=w, u=u: np.tanh(x_t @ w + h @ u),
                    sequences=h,
                    outputs_info=start,
                    go_backwards=direction == 1,
                )
            )
            weights += [w, u]
        h = sj.concatenate(made, axis=2)
    return [x, *weights], [(h * h).sum(), *sj.grad((h * h).sum(), weights)]


def of_seed(seed):
    """A random program; nothing of one with probes, which the interpreter alone runs."""
    made = program(seed)
    return ([], []) if has_probes(made.outputs) else (list(made.inputs), list(made.outputs))


CASES = {
    **PROGRAMS,
    "stack": lambda: stack(2),
    **{str(seed): lambda seed=seed: of_seed(seed) for seed in range(6_100_000, 6_100_040)},
}


@pytest.mark.quick(6)
@pytest.mark.parametrize("name", CASES)
def test_the_source_is_the_same_as_that_of_each_nest_by_itself(name, monkeypatch):
    leaves, outputs = CASES[name]()
    for stage in Staged(leaves, outputs, "f", "emulate").stages:
        shared = generate(stage.program)
        monkeypatch.setattr(nest.NestSources, "_once", lambda self, write, one: write(self, one))
        monkeypatch.setattr(statements, "likeness_of", lambda *_: None)
        alone = generate(stage.program)
        monkeypatch.undo()
        assert [f.text for f in shared.functions] == [f.text for f in alone.functions]
        assert entries(shared) == entries(alone)


def entries(code):
    """The table of a program. How many turns a piece has is a new size each time that code is generated."""
    turns = [piece.turns for piece in code.pieces]
    return ["turns" if entry in turns else entry for entry in code.table]


@pytest.mark.parametrize("function", ["nest_source", "general"])
def test_more_equal_layers_write_no_more_nests(function, monkeypatch):
    written = []
    real = getattr(nest, function)
    monkeypatch.setattr(nest, function, lambda one: written.append(one) or real(one))
    counts = []
    for layers in (3, 5):
        written.clear()
        Staged(*stack(layers), "f", "emulate")
        counts.append(len(written))
    assert counts[1] <= counts[0] + 1  # (what is left of many copies, eight in a nest, differs)


def ensemble(*members):
    """Loops of which none needs another one, each with a matrix of its own: a factor and a dtype for each, and how many
    columns its state has."""
    inputs, outputs = [], []
    for number, (factor, dtype, size) in enumerate(members):
        x = sj.tensor(("T", "B", size), dtype, f"x{number}")
        w = sj.tensor((size, size), dtype, f"w{number}")
        step = lambda x_t, h, w=w, factor=factor: np.tanh(x_t + h @ w) * factor
        inputs += [x, w]
        outputs.append(sj.scan(step, sequences=x, outputs_info=x[0] * 0))
    return inputs, outputs


@pytest.fixture
def written(monkeypatch):
    """The labels of the functions that are written."""
    labels = []
    real = statements.StatementWriter._new_function
    monkeypatch.setattr(
        statements.StatementWriter,
        "_new_function",
        lambda self, label, *rest: labels.append(label) or real(self, label, *rest),
    )
    return labels


def test_loops_that_are_alike_are_written_once(written, rng):
    inputs, outputs = ensemble(*[(0.5, "float32", 40)] * 4)
    f, g = (sj.function(inputs, outputs, mode=mode) for mode in ("emulate", "reference"))
    assert written.count("branch") == 1
    values = [rng.uniform(-0.2, 0.2, shape).astype("float32") for shape in [(7, 3, 40), (40, 40)] * 4]
    all_close(f(*values), g(*values), rtol=1e-5, atol=1e-6)


def test_long_sums_that_are_alike_are_written_once(written, rng):
    inputs, outputs = [], []
    for size in (1500, 1500, 700, 1500):
        x, w = (sj.tensor(shape, "float32") for shape in (("B", size), (size, 96)))
        inputs += [x, w]
        outputs.append(x @ w)
    f, g = (sj.function(inputs, outputs, mode=mode) for mode in ("emulate", "reference"))
    assert written.count("loop") == 4  # a product has a loop for one row and one for more; 700 is another size
    assert f.source.count("for block") == 8  # each of them has a loop inside
    shapes = [tuple({"B": 5}.get(str(dim), dim) for dim in node.type.shape) for node in inputs]
    values = [rng.uniform(-1, 1, shape).astype("float32") for shape in shapes]
    all_close(f(*values), g(*values), rtol=1e-5, atol=1e-4)


def test_more_equal_layers_write_no_more_functions(written):
    counts = []
    for layers in (3, 5):
        written.clear()
        Staged(*stack(layers), "f", "emulate")
        counts.append((written.count("branch"), written.count("loop")))
    assert counts[0][0] > 0
    assert counts[0] == counts[1]


@pytest.mark.parametrize("other", [(0.25, "float32", 40), (0.5, "float64", 40), (0.5, "float32", 48)])
def test_loops_that_differ_are_not_taken_for_each_other(other, written, rng):
    inputs, outputs = ensemble((0.5, "float32", 40), other, (0.5, "float32", 40), other)
    f, g = (sj.function(inputs, outputs, mode=mode) for mode in ("emulate", "reference"))
    assert written.count("branch") == 2
    shapes = [tuple({"T": 7, "B": 3}.get(str(dim), dim) for dim in node.type.shape) for node in inputs]
    values = [rng.uniform(-0.2, 0.2, shape).astype(node.dtype) for shape, node in zip(shapes, inputs, strict=True)]
    all_close(f(*values), g(*values), rtol=1e-5, atol=1e-6)


def test_loops_in_both_directions_are_one_function():
    """Steps through the sequence, and where it begins, are numbers in their tables."""
    x = sj.tensor((20, "B", 64), "float32", "x")
    keep, u = (sj.tensor((64, 64), "float32", name) for name in "ku")

    def run(weights, backwards):
        step = lambda x_t, h: np.tanh(x_t + h @ weights)
        return sj.scan(step, sequences=x, outputs_info=x[0] * 0, go_backwards=backwards)

    code = Staged([x, keep, u], [run(keep, False), run(u, True)], "f", "emulate").stages[0].code
    kinds = [function.name.rpartition("_")[0] for function in code.functions]
    assert (kinds.count("branch"), kinds.count("loop")) == (1, 1)
    f, g = (sj.function([x, keep, u], [run(keep, False), run(u, True)], mode=mode) for mode in ("emulate", "reference"))
    shapes = (20, 3, 64), (64, 64), (64, 64)
    values = [np.random.default_rng(0).uniform(-0.1, 0.1, shape).astype("float32") for shape in shapes]
    all_close(f(*values), g(*values), rtol=1e-4, atol=1e-5)


def test_rows_of_other_sizes_are_computed_by_the_function_of_the_first(monkeypatch):
    x, y = sj.tensor(("N", 100), "float32", "x"), sj.tensor(("M", 100), "float32", "y")
    asked = []
    real = nest.general
    monkeypatch.setattr(nest, "general", lambda one: asked.append(one) or real(one))
    f = sj.function([x, y], [2 * x + 1, 2 * y + 1], mode="emulate")
    assert len(asked) == 1
    values = [np.ones((rows, 100), "float32") * np.arange(100, dtype="float32") for rows in (3, 7)]
    for value, found in zip(values, f(*values), strict=True):
        np.testing.assert_array_equal(found, 2 * value + 1)


@pytest.mark.parametrize("nbytes", [16, 32, 64])
def test_sums_of_unknown_length_have_one_function_for_other_numbers_of_rows(nbytes, rng):
    x, y, b = (sj.tensor(("T", size), "float32", name) for name, size in (("x", 48), ("y", 96), ("b", 512)))
    with host.using(with_vectors(nbytes)):
        f = sj.function([x, y, b], [x.T @ b, y.T @ b], mode="emulate")
    assert f.source.count("def contract_") == 1
    values = [rng.standard_normal((5, size)).astype("float32") for size in (48, 96, 512)]
    all_close(f(*values), [value.T @ values[2] for value in values[:2]], rtol=1e-4, atol=1e-4)


def test_a_function_called_for_a_nest_that_is_alike_has_its_rows():
    n, m = types.size("n"), types.size("m")
    source = Source("f", "", 0, (), (n + 1,), (), Tile(), False, rows=RowRange(2 * n, (4,), 0))
    called = source.called(Correspondence({}, {types.as_atom(n): m}), None)
    assert called.rows == RowRange(2 * m, (4,), 0)
    assert called.numbers == (m + 1,)


# ---- which nests are alike -------------------------------------------------------------------------------------------


def sums(x, y, rows=3, columns=4, number=1.0, label="sums", tile=None):
    """The nest `y[i] = sum(x[i, j] for j) * number`."""
    i, j = NestLoop(rows), NestLoop(columns)
    total = Reduce(x.dtype, sj.ir.OPS["sum"], (j,), Load(x.dtype, Access(x, 0, {i: columns, j: 1})))
    value = Apply(x.dtype, MUL, (total, Literal(x.dtype, number)), {})
    return Nest((i,), (Store(Access(y, 0, {i: 1}), value),), label, tile=tile)


def memory(shape, dtype="float32"):
    return Buffer(np.dtype(dtype), shape, "temporary")


def key(nest):
    return Likeness(nest).key


def test_names_do_not_matter():
    n, m = types.size("n"), types.size("m")
    one, other = sums(memory((n, 4)), memory((n,)), n), sums(memory((m, 4)), memory((m,)), m)
    assert key(one) == key(other)
    names = Likeness(one).names_in(Likeness(other))
    (x, y), (x2, y2) = ([buffer for buffer, _, _ in nest.refs()] for nest in (one, other))
    assert names.buffer(x) is x2
    assert names.buffer(y) is y2
    assert names.size(n * 4 + (n + 1) // 8) == m * 4 + (m + 1) // 8


@pytest.mark.parametrize(
    "changed",
    [
        lambda: sums(memory((3, 4)), memory((3,)), rows=2),
        lambda: sums(memory((3, 4)), memory((3,)), columns=5),
        lambda: sums(memory((3, 4)), memory((3,)), rows=types.size("n")),
        lambda: sums(memory((3, 4)), memory((3,)), number=2.0),
        lambda: sums(memory((3, 4)), memory((3,)), number=1),
        lambda: sums(memory((3, 4)), memory((3,)), number=True),
        lambda: sums(memory((3, 4)), memory((3,)), label="other"),
        lambda: sums(memory((3, 4), "float64"), memory((3,), "float64")),
        lambda: sums(memory((3, 4)), memory((3,), "float64")),
        lambda: sums(memory((3, 4)), memory((3,)), tile=Tile(lanes=8)),
        lambda: replace(sums(memory((3, 4)), memory((3,))), sequential=True),
    ],
)
def test_everything_else_matters(changed):
    assert key(sums(memory((3, 4)), memory((3,)))) != key(changed())


def test_numbers_that_are_equal_but_not_the_same_matter():
    zero, minus = (sums(memory((3, 4)), memory((3,)), number=number) for number in (0.0, -0.0))
    assert key(zero) != key(minus)
    nan, other = (sums(memory((3, 4)), memory((3,)), number=float("nan")) for _ in range(2))
    assert key(nan) == key(other)


def test_it_matters_which_buffers_and_sizes_are_the_same():
    x, y = memory((3, 3)), memory((3,))
    assert key(sums(x, x)) != key(sums(x, y))
    n, m = types.size("n"), types.size("m")
    assert key(sums(x, y, n, n)) != key(sums(x, y, n, m))
    assert key(sums(x, y, n, n + 1)) != key(sums(x, y, n, n + 2))


def test_it_matters_which_values_are_the_same():
    x, y, i = memory((3,)), memory((3,)), NestLoop(3)
    load, again = (Load(x.dtype, Access(x, 0, {i: 1})) for _ in range(2))
    twice, both = (Apply(x.dtype, ADD, args, {}) for args in ((load, load), (load, again)))
    nests = [Nest((i,), (Store(Access(y, 0, {i: 1}), value),), "add") for value in (twice, both)]
    assert key(nests[0]) != key(nests[1])


def added(*offsets, x=None):
    """The nest `y[i] = sum(x[offset + i] for offset in offsets)`, and `x`."""
    x, y, i = memory((64,)) if x is None else x, memory((3,)), NestLoop(3)
    loads = [Load(x.dtype, Access(x, offset, {i: 1})) for offset in offsets]
    value = functools.reduce(lambda a, b: Apply(x.dtype, ADD, (a, b), {}), loads)
    return Nest((i,), (Store(Access(y, 0, {i: 1}), value),), "add"), x


def test_nests_may_be_alike_wherever_their_elements_lie():
    n, m = types.size("n"), types.size("m")
    (one, x), (other, x2) = added(n * m - n, n * m - n + 1, n), added(5, 6, m)
    assert key(one) != key(other)
    first, second = (Likeness(each, anywhere=True) for each in (one, other))
    assert first.key == second.key
    names = first.names_in(second)
    for offset, there in ((n * m - n, 5), (n * m - n + 1, 6), (n * m - n + 7, 12), (n, m), (n - 1, m - 1)):
        assert names.place(x, offset) == (x2, there)


@pytest.mark.parametrize(
    ("some", "others"),
    [((0, 1), (0, 2)), ((0, 1), (1, 0)), ((0, 0), (0, 1)), ((0, 1), (0, types.size("n"))), ((0,), (0, 0))],
)
def test_it_matters_how_elements_lie_to_each_other(some, others):
    assert Likeness(added(*some)[0], anywhere=True).key != Likeness(added(*others)[0], anywhere=True).key


def test_it_matters_where_elements_lie_in_rows_with_room():
    rows = [with_room(np.dtype("float32"), (4, 30), "x").buffer for _ in range(3)]
    first, second, third = (
        Likeness(added(offset, x=x)[0], anywhere=True).key for offset, x in zip((0, 32, 1), rows, strict=True)
    )
    assert first == second != third


def test_the_steps_of_both_directions_are_written_once(monkeypatch):
    written = []
    real = nest.nest_source
    monkeypatch.setattr(nest, "nest_source", lambda one: written.append(real(one)) or written[-1])
    Staged(*stack(2), "f", "emulate")
    steps = [source.name for source in written if "tanh" in source.name]
    assert 0 < len(steps) == len(set(steps)), steps
