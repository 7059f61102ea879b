"""Whole functions exported to NumPy: loops, branches, state, random draws, nested results, sizes, errors."""

import ast
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import scanjit as sj
from tests.export.support import both, exported
from tests.export.test_op_table import close
from tests.fuzz.programs import program

X = np.random.default_rng(0).normal(size=(5, 3))


def same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
        return
    assert found.dtype == expected.dtype and found.shape == expected.shape and close(found, expected)


def decay(x: Any) -> Any:
    w = sj.shared(np.full(3, 0.5), "w")
    return sj.scan(lambda row, h: w * h + row, x, sj.zeros(3), name="decay")


passing = sj.custom_vjp(lambda x: sj.round(x) * 2)
passing.defvjp(lambda cotangent, output, x: cotangent * output)

PROGRAMS = {
    "taps": lambda x: sj.scan(
        lambda a, b, h1, h2: (sj.tanh(a + b + h1 - 0.5 * h2), a * h1),
        [{"input": x, "taps": [-1, 1]}],
        [{"initial": sj.zeros((2, 3)), "taps": [-1, -2]}, None],
    ),
    "backwards": lambda x: sj.scan(lambda row, h: h * 0.9 + row, x, sj.zeros(3), go_backwards=True),
    "until": lambda x: sj.scan(lambda row, s: (s + row, sj.until((s + row).sum() > 0.5)), x, sj.zeros(3)),
    "nested": lambda x: sj.scan(lambda row: sj.scan(lambda e, h: h * e + 1, row, sj.constant(1.0)), x),
    "gradient": lambda x: sj.grad((decay(x) ** 2).sum(), x),
    "second": lambda x: sj.grad(sj.grad((sj.tanh(decay(x))).sum(), x).sum(), x),
    "ifelse": lambda x: sj.ifelse(x.sum() > 0, sj.exp(x), x - 1),
    "in-a-step": lambda x: sj.scan(lambda row, h: sj.ifelse(row[0] > 0, row * h, h - row), x, sj.ones(3)),
    "sizes": lambda x: sj.arange(x.shape[0] * 2 + 1)[x.shape[0] // 2 :: 2],
    "counted": lambda x: sj.scan(lambda h: 2 * h, None, sj.constant(1.0), n_steps=(x[:, 0] > 0).sum()),
    "linalg": lambda x: sj.solve(x.T @ x + sj.eye(3), x.T) @ x,
    "indexed": lambda x: x[sj.argmax(x, axis=0), sj.arange(3)] + x[-1] + x[::-2][0],
    "softmax": lambda x: sj.softmax(x, axis=1) @ sj.log_softmax(x, axis=1).T,
    "convolution": lambda x: sj.conv1d(x.dimshuffle("x", 1, 0), sj.ones((2, 3, 2))),
    "associative": lambda x: sj.associative_scan(lambda a, b: a + b, x),
    "large-constant": lambda x: x * np.arange(15.0).reshape(5, 3) + np.array([1.0, np.inf, -np.inf]),
    "custom": lambda x: [passing(x), sj.grad(passing(x).sum(), x)],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, tmp_path: Path) -> None:
    x = sj.matrix("x")
    found, expected = reversed(both([x], PROGRAMS[name](x), [X], tmp_path))
    same(found, expected)


def test_random_programs(tmp_path: Path) -> None:
    """A few of those that compiled code is tested with."""
    for seed in range(40):
        p = program(seed)
        rng = np.random.default_rng(seed)
        try:
            f = sj.function(p.inputs, p.outputs, mode="reference")
        except sj.ScanjitError:
            continue
        model = exported(f, tmp_path).model
        args = p.draw(rng, p.sizes)
        try:
            expected = f(*args)
        except sj.ScanjitError:
            with pytest.raises((ValueError, IndexError, AssertionError)):
                model(*args)
            continue
        for a, b in zip(model(*args), expected, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


class Pair(NamedTuple):
    first: Any
    second: Any


@pytest.mark.parametrize(
    ("outputs", "shape"),
    [
        (lambda x: None, lambda y: None),
        (lambda x: {"a": x, "b": (x + 1, [x * 2])}, lambda y: y),
        (lambda x: (x.sum(),), lambda y: y),
        (lambda x: [], lambda y: y),
        (lambda x: Pair(x, 2 * x), tuple),
    ],
)
def test_results_are_nested_as_before(outputs: Any, shape: Any, tmp_path: Path) -> None:
    x = sj.vector("x")
    expected, found = both([x], outputs(x), [[1.0, 2.0]], tmp_path)
    same(found, shape(expected)) if expected is not None else None
    assert (found is None) == (expected is None)


def test_results_are_new_arrays(tmp_path: Path) -> None:
    w = sj.shared(np.ones(3), "w")
    x = sj.vector("x")
    model = exported(sj.function([x], [w, x], mode="reference"), tmp_path).model
    given = np.zeros(2)
    for result in model(given):
        result += 5
    assert given.tolist() == [0, 0] and model(given)[0].tolist() == [1, 1, 1]


def test_updates_and_random_draws(tmp_path: Path) -> None:
    """State goes on from call to call, as it does in the function."""
    stream, total = sj.random.Stream(3), sj.shared(np.zeros(2), "total")
    x = sj.vector("x")
    noise = stream.normal((2,)) + stream.uniform((2,))
    f = sj.function([x], total + noise, updates={total: total + x * noise}, mode="reference")
    model = exported(f, tmp_path).model
    for _ in range(3):
        same(model([1.0, 2.0]), f([1.0, 2.0]))


def test_variables_with_one_name_or_none(tmp_path: Path) -> None:
    many = [
        sj.shared(float(i), name)
        for i, name in enumerate(["w", "w", None, None, "a/b:0", "import", "file", "allow_pickle"])
    ]
    expected, found = both([], list(many), [], tmp_path)
    same(found, expected)


def test_names_that_python_has(tmp_path: Path) -> None:
    names = [
        "lambda",
        "np",
        "model",
        "sum",
        "2x",
        "a b",
        "variables",
        "sigmoid",
        "argument",
        "erf",
        "each",
        "in_doubles",
    ]
    inputs = [sj.scalar(name) for name in names]
    total = sj.sigmoid(sum(inputs[1:], inputs[0])) + sj.erf(sj.sigmoid(inputs[0]))
    expected, found = both(inputs, total, [float(i) / 50 for i in range(len(names))], tmp_path)
    same(found, expected)


@pytest.mark.parametrize("name", ["sigmoid", "argument", "variables_2"])
def test_a_function_called_as_one_of_its_helpers(name: str, tmp_path: Path) -> None:
    x = sj.vector("x")
    f = sj.function([x], sj.sigmoid(x) + sj.shared(1.0, "w"), mode="reference")
    found: dict[str, Any] = {"__file__": str(sj.export_numpy(f, tmp_path, name) / name / "__init__.py")}
    exec(Path(found["__file__"]).read_text(), found)
    same(found[name]([0.0, 1.0]), f([0.0, 1.0]))


def test_both_directions_share_a_step(tmp_path: Path) -> None:
    x, w = sj.matrix("x"), sj.shared(np.eye(3), "w")
    ways = [
        sj.scan(lambda row, h: sj.tanh(row + h @ w), x, sj.zeros(3), go_backwards=way, name="rnn") for way in (0, 1)
    ]
    module = exported(sj.function([x], ways, mode="reference"), tmp_path)
    source = Path(module.__file__).read_text()
    assert source.count("def rnn_step(") == 1 and source.count("np.tanh") == 1 and source.count("    for ") == 2
    imported = {
        alias.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import) for alias in node.names
    }
    assert imported == {"numpy"}


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((X, X[:4]), ValueError, r"sizes of y\.shape\[0\] must be equal, got 4 and 5"),
        ((X[0], X), ValueError, r"x must have the shape \(None, 3\)"),
        ((X[:, :2], X), ValueError, "x must have the shape"),
        ((X.astype(complex), X), TypeError, "x must be an array of float64"),
        (("text", X), TypeError, "x must be an array"),
        ((np.ma.masked_less(X, 0.0), X), ValueError, "x has masked entries, which have no value"),
        ((X[:1], X[:1]), ValueError, "out of bounds for axis 0"),
    ],
)
def test_arguments_that_do_not_fit(args: Any, error: Any, message: str, tmp_path: Path) -> None:
    x, y = sj.tensor(("T", 3), name="x"), sj.tensor(("T", 3), name="y")
    model = exported(sj.function([x, y], x[1] + y, mode="reference"), tmp_path).model
    whole = np.arange(15).reshape(5, 3)
    same(model(X, X), X[1] + X)
    same(model(whole.tolist(), whole.astype("float32")), (whole[1] + whole).astype(float))
    with pytest.raises(error, match=message):
        model(*args)


def test_an_index_that_reads_nothing_may_be_out_of_bounds(tmp_path: Path) -> None:
    x, at = sj.matrix("x"), sj.lvector("at")
    f = sj.function([x, at], [x[at], x[at].set(1.0), x[:, at[:0]]], mode="reference")
    model = exported(f, tmp_path).model
    for values in ((np.ones((3, 0)), np.array([7])), (np.ones((3, 2)), np.array([2]))):
        same(list(model(*values)), f(*values))
    with pytest.raises(IndexError):
        model(np.ones((3, 2)), np.array([7]))


def test_conditions_on_sizes(tmp_path: Path) -> None:
    x, y = sj.matrix("x"), sj.matrix("y")
    model = exported(sj.function([x, y], x + y, mode="reference"), tmp_path).model
    with pytest.raises(ValueError, match="must be equal, got 5 and 1"):  # NumPy would stretch it
        model(X, X[:1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"f": "f"}, "only a compiled function can be exported"),
        ({"name": "a-b"}, "name of an exported package"),
        ({"name": "class"}, "name of an exported package"),
        ({"name": "α"}, "name of an exported package"),
        ({"name": "ﬁ"}, "name of an exported package"),
    ],
)
def test_what_is_no_function_or_name(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    x = sj.vector("x")
    given = {"f": sj.function([x], x, mode="reference"), "path": tmp_path / "new", "name": "fine"} | change
    with pytest.raises(sj.ArgumentError, match=message):
        sj.export_numpy(**given)
    assert not (tmp_path / "new").exists()


def test_a_package_is_not_written_over(tmp_path: Path) -> None:
    x = sj.vector("x")
    one, two = (sj.function([x], k * x, name="f", mode="reference") for k in (1, 2))
    assert sj.export_numpy(one, tmp_path) == tmp_path
    before = (tmp_path / "f" / "__init__.py").read_text()
    with pytest.raises(sj.ArgumentError, match="a package already"):
        sj.export_numpy(two, tmp_path)
    assert (tmp_path / "f" / "__init__.py").read_text() == before
    sj.export_numpy(two, tmp_path, overwrite=True)
    assert (tmp_path / "f" / "__init__.py").read_text() != before
    with pytest.raises(sj.ArgumentError, match="must be a folder"):
        sj.export_numpy(two, tmp_path / "f" / "__init__.py")


@pytest.mark.parametrize("there", [False, True])
def test_a_package_whose_last_file_cannot_be_written(
    there: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    x, w = sj.vector("x"), sj.shared(2.0, "w")
    one, two = (sj.function([x], w * k * x, name="f", mode="reference") for k in (1, 2))
    if there:
        sj.export_numpy(one, tmp_path / "a" / "b")
    before = {path: path.is_dir() or path.read_bytes() for path in tmp_path.rglob("*")}

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="no space left"):
        sj.export_numpy(two, tmp_path / "a" / "b", overwrite=there)
    assert {path: path.is_dir() or path.read_bytes() for path in tmp_path.rglob("*")} == before


def test_an_op_that_numpy_has_not(tmp_path: Path) -> None:
    from scanjit.ir import OPS, Op

    op = Op("nameless", infer=lambda x: x, reference=lambda x: x)
    try:
        x = sj.vector("x")
        f = sj.function([x], op(x), mode="reference")
        with pytest.raises(sj.NotSupportedError, match="the op nameless cannot be exported"):
            sj.export_numpy(f, tmp_path / "new", "f")
        assert not (tmp_path / "new").exists()
    finally:
        del OPS["nameless"]
