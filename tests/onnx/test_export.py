"""Exported functions, run by ONNX Runtime, and read again."""

import pickle

import numpy as np
import onnx
import pytest

import scanjit as sj
import scanjit.onnx as sjo
from scanjit.onnx.exporting import model as exporting
from tests.onnx.support import check_export, session_of


def numbers():
    """A function that draws arrays of these shapes, always the same ones."""
    rng = np.random.default_rng(0)
    return lambda *shape: rng.normal(size=shape).astype("float32")


@pytest.fixture
def normal():
    return numbers()


def check(inputs, outputs, arrays, opset=18, exact=True, tolerance=1e-5, cells=False):
    """Of a model that was read again, results are `exact`."""
    return check_export(inputs, outputs, arrays, opset, (0, 0) if exact else (1e-5, 1e-6), (tolerance, 1e-6), cells)


def kinds(model):
    return {node.op_type for node in model.graph.node}


x = sj.tensor(("T", "B", 3), "float32", "x")
draw = numbers()
w, r = sj.shared(draw(3, 4), "w"), sj.shared(draw(4, 4), "r")
X = draw(5, 2, 3)


def recurrence(**options):
    start = sj.zeros((x.shape[1], 4), "float32")
    return sj.scan(lambda row, h: sj.tanh(row @ w + h @ r), x, start, **options)


@pytest.mark.parametrize("opset", [13, 15, 18, 25])
def test_a_scan_is_a_scan(opset):
    h = recurrence()
    model = check([x], [h, h[-1], h.max(axis=0)], [X], opset)
    assert "Scan" in kinds(model) and "Loop" not in kinds(model)
    assert {tensor.name for tensor in model.graph.initializer} == {"w", "r"}
    assert [d.dim_param or d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == ["T", "B", 3]


def test_a_transposed_matrix_times_a_vector():
    """ONNX Runtime (1.32) computes a transpose wrongly before a product with a vector."""
    m, b, v = sj.tensor((3, 4), "float32", "m"), sj.tensor((2, 3, None), "float32", "b"), sj.vector("v", "float32")
    outputs = [m.T @ v, sj.tanh(m.T * 2) @ v, sj.swapaxes(b, 1, 2) @ v, sj.grad(((m @ (m.T @ v)) ** 2).sum(), v), v @ v]
    check([m, b, v], outputs, [draw(3, 4), draw(2, 3, 5), draw(3)], exact=False)
    rows = sj.matrix("rows", "float32")
    steps = sj.scan(lambda row, s: s / 2 + (row - s.T @ (s @ row)), rows, m)
    check([m, rows], steps, [draw(3, 4), draw(5, 4)], exact=False)


def test_loops_of_all_kinds():
    n = sj.scalar("n", "int64")
    backwards = recurrence(go_backwards=True)
    fibonacci = sj.scan(lambda a, b: a + b, outputs_info=dict(initial=sj.constant([0, 1]), taps=[-2, -1]), n_steps=8)
    doubled = sj.scan(lambda h: (h * 2, sj.until(h * 2 > n)), outputs_info=sj.constant(1), n_steps=50)
    tripled = sj.while_loop(lambda v: v < n, lambda v: v * 3, sj.constant(1))
    tapped = sj.scan(lambda before, here, after: before * here - after, dict(input=x, taps=[-1, 0, 2]))
    nested = sj.scan(lambda row: sj.scan(lambda a, s: a + s, row, sj.zeros(3, "float32")), x)
    chosen = sj.ifelse(n > 3, n * 2, n - 1)
    outputs = [backwards, fibonacci, doubled, tripled, tapped, nested, chosen, sj.cumsum(x, 1)]
    model = check([x, n], outputs, [X, np.int64(100)])
    assert {"Scan", "Loop", "If"} <= kinds(model)
    check([n], [tripled, doubled], [np.int64(0)])


@pytest.mark.parametrize("count", [3, 4])
def test_sizes_that_steps_compute(count):
    """Of the sizes around them: of what they return, of a lag, and of the rows of an inner loop."""
    row = sj.vector("row")
    n = sj.as_tensor(row.shape[0]) % 3 + 1
    inner = lambda a: sj.scan(lambda b, h: (a * b + h, sj.until(h > 3.0)), row, sj.constant(0.0))
    outputs = [
        sj.scan(lambda a: a + sj.zeros(sj.where(n > 1, 2, n)), row),
        sj.scan(lambda a, h, back: a + h + back, row, dict(initial=sj.ones(3), taps=[-1, -n])),
        sj.scan(lambda a: sj.concatenate([inner(a), sj.ones(row.shape[0] - inner(a).shape[0])]), row),
    ]
    check([row], outputs, [np.arange(1.0, 1.0 + count)])


def test_the_last_row_of_loops_side_by_side_that_stop():
    """Also in code of the model that was read again: a step does not know the length of a loop in it."""
    rows, starts = sj.tensor((6, 3), name="rows"), sj.tensor((4, 3), name="starts")
    step = lambda row, h: (h * 0.7 + row, sj.until(h.sum() < 1))
    last = sj.vmap(lambda start: sj.scan(step, rows, start)[-1])(starts)
    given = [np.full((6, 3), 0.1), np.arange(1.0, 13.0).reshape(4, 3)]
    model = check([rows, starts], last, given, exact=False)
    expected = sj.function([rows, starts], last, mode="reference")(*given)
    np.testing.assert_allclose(sjo.load(model).function(mode="emulate")(*given), expected)


@pytest.mark.parametrize("limit", [-1.0, 2.0, 5.0, 99.0])
@pytest.mark.parametrize("checkpoint", [2, "sqrt"])
def test_loops_that_stop_with_checkpoints(limit, checkpoint):
    """A loop over stretches of steps: the last stretch may stop before its end."""
    most, row = sj.scalar("most"), sj.vector("row")

    def step(a, h):
        h = sj.tanh(h) + a
        return h, (h * row).sum() + row, sj.until(h > most)

    h, more = sj.scan(step, row, [sj.constant(0.0), None], checkpoint=checkpoint)[:2]
    check([row, most], [h, more, h[-1] + more.sum()], [np.arange(7.0), np.float64(limit)])


def test_one_row_of_a_stack_is_broadcast(rng):
    """A model of a loop of two steps does not say that the rows it reads are two, nor that its last row is one."""
    rows, y = sj.tensor(("n", "k"), name="rows"), sj.tensor(("m", "k"), name="y")
    last = sj.scan(lambda row, h: row + h, rows, sj.zeros(rows.shape[1]), n_steps=2)[1:]
    outputs = [last * y, sj.where(last > 0, y, 1.0), sj.broadcast_to(last, y.shape), sj.where(y > 0, y, last)]
    check([rows, y], outputs, [rng.normal(size=(3, 4)), rng.normal(size=(5, 4))])


def test_gradients_of_stacks_that_end_early_in_steps():
    """Rows that a loop with checkpoints did not reach are zeros: sizes are sums of the number of steps and the rest."""
    rows, start = sj.tensor(("steps", "n")), sj.tensor(("n",))

    def step(row, h):
        return np.tanh(row + sj.scan(lambda x: (x * x, sj.until(x > 1.5)), h[:-1], checkpoint=3).sum())

    states = sj.scan(step, rows, start)
    f = sj.function([rows, start], [states, sj.grad((states**2).sum(), start)], mode="reference")
    read = sjo.load(sjo.export(f)).function(mode="reference")
    for n in (2, 5, 8):
        rng = np.random.default_rng(n)
        given = rng.normal(size=(3, n)), 2 * rng.normal(size=n)
        for found, expected in zip(read(*given), f(*given), strict=True):
            np.testing.assert_allclose(found, expected, 1e-12)


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_gradients_of_slices_of_axes_that_may_be_short(normal, count):
    """Slices without entries may begin before the first entry, or behind the last one."""
    y = sj.vector("y")
    cuts = [y[1:], y[:-1], y[2:], y[-3:-1], y[y.shape[0] // 2 :], y[1:][1:]]
    check([y], [sj.grad((cut**2).sum(), y) for cut in cuts], [normal(count).astype("float64")])


def test_loops_in_loops_that_compute_the_same():
    """The same expression, of an input of the step and of the same input of the inner step."""
    y, k = sj.vector("y"), sj.scalar("k", "int64")
    inner = lambda a, h: sj.scan(lambda b, g: sj.sin(2.0 * g) + b, y, sj.sin(2.0 * h) + a)[-1]
    counted = lambda: sj.while_loop(lambda s: s[1] < k + 1, lambda s: (s[0] * 0.5 + 1.0, s[1] + 1), (y[0], k * 0))[0]
    outputs = [sj.scan(inner, y, sj.constant(0.5)), sj.ifelse(k > 0, counted(), y[1])]
    check([y, k], outputs, [np.array([0.3, 1.0, -2.0]), np.int64(2)])


def test_a_loop_in_a_loop_has_other_results_than_the_same_loop_outside(normal):
    """Nothing but numbers goes into it, so that it is the same node in both graphs."""
    start = [sj.constant(np.float32(k)) for k in (1, 2)]
    g, h = sj.scan(lambda g, h: [g / 2, sj.sin(g) + h], outputs_info=start, n_steps=3, return_list=True)
    y = sj.vector("y", "float32")
    check([y], [sj.sum(g), sj.scan(lambda a, b: a * b + sj.sum(h), y, start[0])], [normal(4)])


def test_loops_without_steps():
    """Read again; ONNX Runtime refuses to run a Scan over no rows."""
    h = recurrence()
    f = sjo.load(sjo.export(([x], [h, sj.cumsum(x, 0), h.sum(axis=0)]))).function(mode="reference")
    assert [y.shape for y in f(X[:0])] == [(0, 2, 4), (0, 2, 3), (2, 4)]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_slices_in_steps(count):
    """Whose ends depend on sizes, and may be where they start."""
    rows, at = sj.matrix("rows"), sj.lvector("at")
    steps = [
        lambda row: sj.concatenate([row, row[:2]])[1:],
        lambda row: sj.concatenate([row, row[:2]])[: at[0]],
        lambda row: sj.concatenate([row, row])[: at[0]][1:],
        lambda row: row[2:][:3],
        lambda row: row[1::2],
        lambda row: row[at[0] : at[1]],
    ]
    found = [sj.scan(step, sequences=rows) for step in steps]
    check([rows, at], found, [np.random.default_rng(0).normal(size=(3, count)), np.array([1, 3])])


def test_gradients():
    h = recurrence()
    check([x], sj.grad((h * h).sum(), [w, r, x]), [X], tolerance=1e-4)


def test_shapes_and_indices(normal):
    y, i = sj.tensor(("n", 6), "float32", "y"), sj.tensor(("k",), "int64", "i")
    outputs = [
        y[::-1], y[1:, ::2], y[::-2, 1:3], y[:0], y[y.shape[0] // 2 :], y[: y.shape[0] - 2], y[i], y[i, i % 3],
        y[1:3, 2:4].set(7.0), y[:, ::2].set(0.5), y[::-2].set(1.0), y[i].inc(2.0), y[i, 1:3].set(9.0),
        sj.concatenate([y, y * 2]), y.reshape((-1, 3)), y[1:1].reshape((-1, 6)), y.T, y.dimshuffle(1, "x", 0),
        sj.pad(y, ((1, 2), (0, 1))), sj.tile(y, (2, 1)), sj.roll(y, 1, 0), sj.eye(3), sj.arange(y.shape[0]),
        y.shape[0] // 2 + i, sj.tril(y[:, :2]), sj.one_hot(i, 5), sj.diag(y[:, 0]),
    ]  # fmt: skip
    check([y, i], outputs, [normal(4, 6), np.array([0, 2, 1])])


def test_products_and_reductions(normal):
    y, z = sj.tensor(("n", 6), "float32", "y"), sj.tensor(("B", "n", 6), "float32", "z")
    outputs = [
        y.T @ y, y @ y.T, z @ y.T, sj.outer(y[0], y[1]), y[0] @ y[1], sj.einsum("ij,ik->jk", y, y),
        sj.tensordot(z, z, 3), sj.einsum("bij,bkj->bik", z, z), sj.softmax(y), sj.logsumexp(y, axis=1), y.max(axis=0),
        (y > 0).any(axis=1), (y > 0).all(axis=0), sj.argmax(y, 1), sj.argmin(y, 0), sj.var(y, 1), sj.norm(y),
        sj.prod(y, 1), y.sum(), y.min(),
    ]  # fmt: skip
    check([y, z], outputs, [normal(4, 6), normal(2, 4, 6)], exact=False, tolerance=1e-4)


def test_functions_of_numbers(normal):
    y, i = sj.tensor(("n", 6), "float32", "y"), sj.tensor(("k",), "int64", "i")
    outputs = [
        sj.expm1(y * 1e-3), sj.expm1(y * 30), sj.log1p(abs(y) * 1e-3), sj.log1p(abs(y)), sj.trunc(y), sj.sign(y),
        y // 0.7, y % 0.7, y % -0.7, sj.cbrt(y), sj.erf(y), sj.where(y > 0, y, -y), i // 2, i % 3, (-i) // 2, i // 0,
        i % 0, sj.gelu(y), sj.elu(y), sj.selu(y), sj.softplus(y), sj.log_sigmoid(y), sj.sigmoid(y), sj.relu(i - 1),
        (y > 0) & (y < 1), ~(y > 0), (y > 0) == (y < 1), (y > 0) < (y < 1), (y > 0) != (y < 1), sj.cast(y, "int32"),
        sj.cast(i, "bool"), sj.clip(y, -0.5, 0.5), sj.round(y), sj.ceil(y), sj.exp2(y), sj.log2(abs(y)),
        sj.log10(abs(y)), sj.isnan(y / 0.0 * 0.0), sj.isinf(y / 0.0), sj.maximum(y, 0.1), sj.sqrt(abs(y)),
        abs(y) ** 1.7, sj.tan(y), sj.arctan(y), sj.stop_gradient(y),
    ]  # fmt: skip
    model = check([y, i], outputs, [normal(4, 6), np.array([0, 2, 1, 3])], exact=False, tolerance=1e-4)
    assert "Where" in kinds(model)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_integers_of_any_width(dtype):
    """Quotients and remainders of numbers that are far from zero; the operator Neg has no numbers without a sign."""
    i, j = sj.tensor(("n", 1), dtype, "i"), sj.tensor(("n",), dtype, "j")
    limits = np.iinfo(dtype)
    values = np.array([limits.max, limits.max // 3, 7, 1, 0, limits.min // 3, limits.min + 1], dtype)
    check([i, j], [i // j, i % j, -i, i * j - i], [values[:, None], values])
    least = np.array([limits.min, limits.max], dtype)
    check([i, j], [i // j, i % j], [least[:, None], np.array([-1, 1]).astype(dtype)])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_shifts(dtype):
    """Also by more bits than there are, and by negative numbers, as in NumPy."""
    i, j = sj.tensor(("n", 1), dtype, "i"), sj.tensor(("m",), dtype, "j")
    limits = np.iinfo(dtype)
    values = np.array([limits.max, limits.max // 3, 7, 1, 0, limits.min // 3, limits.min + 1, limits.min], dtype)
    counts = np.array([0, 1, 3, 7, 8, 15, 31, 32, 62, 63, 64, 127, limits.min], dtype)
    check([i, j], [i << j, i >> j], [values[:, None], counts])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softplus_of_large_and_small_numbers(dtype):
    y = sj.tensor(("n",), dtype, "y")
    values = np.array([-1e3, -80, -30, -1, 0, 1, 30, 1e3, np.inf, -np.inf, np.nan], dtype)
    tolerance = 1e-6 if dtype == "float32" else 1e-14
    check([y], [sj.softplus(y), sj.log_sigmoid(y)], [values], exact=False, tolerance=tolerance)


def test_angles_of_points():
    """On axes and diagonals, at the origin and infinitely far, and of either sign of zero."""
    y, x = sj.tensor(("n", 1), "float32", "y"), sj.tensor(("n",), "float32", "x")
    values = np.array([0.0, -0.0, 1.0, -1.0, 0.3, -7.0, 1e30, -1e-30, np.inf, -np.inf, np.nan], "float32")
    angles = sj.arctan2(y, x)
    check([y, x], [angles, 1.0 / angles], [values[:, None], values], exact=False, tolerance=1e-6)


@pytest.mark.quick(2)
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_slices_that_run_backwards_have_known_lengths(normal, count):
    """The reader learns the length from the model, also if it may be 0: other tensors may then have the same one."""
    x, y = sj.tensor(("n", 3), "float32", "x"), sj.tensor((5, 3), "float32", "y")
    n = x.shape[0]
    turned = [x[::-1], y[:n][::-1], y[n - 1 :: -1][:n] if count else x, y[: 2 * n : 2][::-1][: n // 2]]
    inputs, arrays = [x, y], [normal(count, 3), normal(5, 3)]
    check(inputs, [turned[0] + x, turned[1] * x, turned[2] - x, turned[3]], arrays)
    read = sjo.load(sjo.export((inputs, [x[::-1], y[:n][::-1], x[n // 2 :][::-1]])))
    n = read.inputs[0].type.shape[0]
    assert [output.type.shape[0] for output in read.outputs] == [n, sj.types.minimum(n, 5), n - n // 2]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_slices_of_axes_that_may_be_short(normal, count):
    y, i = sj.tensor(("n", "m"), "float32", "y"), sj.lvector("i")
    bounds = [None, 0, 2, -1, -3, y.shape[1] - 1, y.shape[1] // 2, i[0]]
    cuts = [slice(a, b, step) for a in bounds for b in bounds for step in (1, -1, -2)]
    check([y, i], [y[:, cut] for cut in cuts], [normal(2, count), np.array([1])])
    check([y], [y[:, -3::-1].set(7.0), y[::-1, -4::-2].set(7.0), y[:, -3:].set(7.0)], [normal(2, count)])


def test_convolutions(normal):
    c, d = sj.tensor(("B", 3, 9), "float32", "c"), sj.tensor(("B", 4, 7, 8), "float32", "d")
    one, two = sj.shared(normal(4, 3, 3), "one"), sj.shared(normal(6, 2, 3, 2), "two")
    e, three = sj.tensor(("B", 4, 5, "rows", 6), "float32", "e"), sj.shared(normal(6, 2, 2, 3, 1), "three")
    outputs = [
        sj.conv1d(c, one),
        sj.conv1d(c, one, "half", subsample=2, filter_flip=False),
        sj.conv2d(d, two, border_mode=((1, 0), (2, 1)), num_groups=2, filter_dilation=(1, 2)),
        sj.conv3d(e, three, border_mode=((1, 0), (0, 2), 1), num_groups=2, subsample=(1, 2, 1)),
        sj.conv3d(e[:, :2], three, "full", filter_dilation=(2, 1, 1)),
    ]
    arrays = [normal(2, 3, 9), normal(2, 4, 7, 8), normal(2, 4, 5, 7, 6)]
    model = check([c, d, e], outputs, arrays, exact=False, tolerance=1e-4)
    assert [node.op_type for node in model.graph.node].count("Conv") == 5 and "Einsum" not in kinds(model)
    slope = sj.grad((outputs[2] ** 2).sum(), two)
    check([d], slope, [normal(2, 4, 7, 8)], exact=False, tolerance=1e-3)


def test_writing_again_what_was_read_gives_the_same_model():
    def written(inputs, h):
        return sjo.export((list(inputs), {"h": h}), name="once", cells=False)

    model = sjo.load(written([x], recurrence()))
    second = written(model.inputs, *model.outputs)
    model = sjo.load(second)
    assert written(model.inputs, *model.outputs) == second


def test_names_of_inputs_outputs_and_sizes(tmp_path):
    a = sj.tensor((None, "m"), "float64")
    f = sj.function([a], {"first": a * 2, "others": (a, [a + 1])}, name="several", mode="reference")
    sjo.save(f, tmp_path / "several.onnx")
    model = sjo.load(tmp_path / "several.onnx")
    assert model.name == "several" and model.inputs[0].name == "input_0"
    assert model.output_names == ("first", "others_0", "others_1_0")
    assert [str(dim) for dim in model.inputs[0].type.shape] == ["n0", "m"]
    assert [path.name for path in tmp_path.iterdir()] == ["several.onnx"]


def test_a_file_is_the_exported_model_also_if_the_weights_stand_beside_it(tmp_path, monkeypatch, normal):
    """Weights of more than 2 GB stand beside it."""
    flags = sj.shared(np.array([[True], [False], [True], [True]]), "flags")
    units, none = 300, sj.shared(np.zeros((0, 3), "float32"), "none")
    wide, back = sj.shared(normal(3, units), "wide"), sj.shared(normal(units, units) / 20, "back")
    step = lambda row, h: sj.tanh(row @ wide + h @ back)
    h = sj.scan(step, x, sj.zeros((x.shape[1], units), "float32"))  # an RNN, whose weights are transposed
    outputs = {"h": h, "rest": sj.where(flags, r, -1.0), "one": sj.shared(np.float64(3.0), "one") + none.sum()}
    whole = sjo.export(([x], outputs))
    sjo.save(([x], outputs), tmp_path / "whole.onnx")
    assert onnx.load(tmp_path / "whole.onnx") == whole and "RNN" in kinds(whole)
    monkeypatch.setattr(exporting, "MOST_BYTES", 1000)
    sjo.save(([x], outputs), tmp_path / "parted.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parted.onnx", "parted.onnx.data", "whole.onnx"]
    assert (tmp_path / "parted.onnx").stat().st_size < 4000
    onnx.checker.check_model(str(tmp_path / "parted.onnx"), full_check=True)
    loaded = onnx.load(tmp_path / "parted.onnx")
    for found, wanted in zip(loaded.graph.initializer, whole.graph.initializer, strict=True):
        np.testing.assert_array_equal(
            onnx.numpy_helper.to_array(found), onnx.numpy_helper.to_array(wanted), strict=True
        )
    session = session_of(tmp_path / "parted.onnx")
    expected = sj.function([x], outputs, mode="reference")(X)
    back_again = sjo.load(tmp_path / "parted.onnx").function(mode="reference")(X)
    for i, (name, found) in enumerate(zip(outputs, session.run(None, {"x": X}), strict=True)):
        np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=1e-6, strict=True)
        np.testing.assert_allclose(back_again[i], expected[name], rtol=1e-4, atol=1e-6, strict=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(exporting, "encoded", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        sjo.save(([x], {"h": h * 2}), tmp_path / "parted.onnx")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_model_is_written_before_its_weights_are_replaced(tmp_path, monkeypatch):
    """So the old weights stay if the disk is full. It may be so short that it waits in memory to be written."""
    written = []

    def replace_file(path):
        written.extend(part.stat().st_size for part in tmp_path.glob(".model.onnx-*"))
        return real(path)

    real = exporting.replace_file
    monkeypatch.setattr(exporting, "replace_file", replace_file)
    monkeypatch.setattr(exporting, "MOST_BYTES", 1000)
    sjo.save(([x], x @ sj.shared(np.zeros((3, 300), "float32"), "w")), tmp_path / "model.onnx")
    assert written == [(tmp_path / "model.onnx").stat().st_size]


def test_what_has_no_equivalent_is_named_with_its_line():
    with pytest.raises(sj.NotSupportedError, match=r"(?s)gammaln has no equivalent in ONNX.*test_export\.py:\d+"):
        sjo.export(([x], sj.gammaln(x)))
    stream = sj.random.Stream(0)
    with pytest.raises(sj.NotSupportedError, match="random_bits has no equivalent"):
        sjo.export(([x], x + stream.normal(x.shape, dtype="float32")))


def test_what_cannot_be_exported():
    count = sj.shared(0, "count")
    f = sj.function([], count, updates={count: count + 1}, mode="reference")
    with pytest.raises(sj.NotSupportedError, match=r"(?s)no state.*'count'"):
        sjo.export(f)
    with pytest.raises(sj.ArgumentError, match="compiled function, or a pair"):
        sjo.export(x)
    with pytest.raises(sj.ArgumentError, match=r"(?s)opset must be a version.*13 to 25"):
        sjo.export(([x], x), opset=12)


def test_names_of_outputs_are_kept_when_a_model_is_written_again():
    outputs = {"stateN": 2 * x, "387": x.sum()}
    for kept in (outputs, {"probability": x.sum()}):
        model = sjo.load(sjo.export(([x], kept)))
        f = model.function(mode="reference")
        for source in (f, pickle.loads(pickle.dumps(f))):
            again = sjo.export(source)
            onnx.checker.check_model(again, full_check=True)
            assert [value.name for value in again.graph.output] == list(kept)
            assert sjo.load(again).output_names == tuple(kept)


def test_orders(normal):
    y, i = sj.tensor(("n", 6), "float32", "y"), sj.tensor(("k",), "int8", "i")
    outputs = [
        sj.argsort(y, 0), sj.sort(y), sj.sort(y, descending=True), *sj.top_k(y, 2), sj.median(y, 1), sj.argsort(i),
        sj.quantile(y, 0.3, axis=0), sj.searchsorted(sj.sort(y[0]), y), sj.bincount(i, length=5), sj.argsort(y > 0),
        sj.vmap(lambda row, s: sj.median(row) + sj.quantile(row, s))(y, sj.sigmoid(y[:, 4:])),
    ]  # fmt: skip
    values = normal(4, 6).round()
    values[1, :3] = np.nan, np.inf, np.nan
    values[2, 2:5] = 0.0, -0.0, 0.0
    check([y, i], outputs, [values, np.array([3, 0, 3, 1], "int8")])
