"""Compiled functions as functions of PyTensor's variables: values, derivatives, shapes, errors; and PyMC samples."""

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.pytensor import PytensorFunction
from tests.optional import optional

pytensor, needs_pytensor = optional("pytensor")
pt, _ = optional("pytensor.tensor")

RETURNS = 0.5 * np.random.default_rng(0).normal(size=200)


def garch(returns: Any, omega: Any, alpha: Any, beta: Any) -> Any:
    """The log-likelihood of a GARCH(1, 1) model, but for a constant; and the variances."""
    v = sj.scan(lambda r, v: omega + alpha * r * r + beta * v, returns, omega / (1 - alpha - beta))
    return -0.5 * (sj.log(v[:-1]) + returns[1:] * returns[1:] / v[:-1]).sum(), v


def theirs(returns: Any, omega: Any, alpha: Any, beta: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # versions differ in whether updates are returned
        v, _ = pytensor.scan(
            lambda r, v, o, a, b: o + a * r * r + b * v,
            sequences=[pt.as_tensor(returns)],
            outputs_info=[omega / (1 - alpha - beta)],
            non_sequences=[omega, alpha, beta],
        )
    return -0.5 * (pt.log(v[:-1]) + returns[1:] * returns[1:] / v[:-1]).sum(), v


def compiled(f: Callable[..., Any], build: Callable[..., Any]) -> Callable[..., list[np.ndarray]]:
    given = pt.dscalars("omega", "alpha", "beta")
    return pytensor.function(list(given), build(*f(RETURNS, *given), *given), mode="FAST_COMPILE")


@needs_pytensor
@pytest.mark.parametrize("mode", ["reference", "numba"])
def test_values_and_derivatives_of_two_orders_are_pytensors(mode: str) -> None:
    f = sj.pytensor.as_op(garch, mode)

    def build(y: Any, v: Any, *given: Any) -> list[Any]:
        slopes = pt.grad(y + v[3], list(given))
        return [y, v, *slopes, *pt.grad(slopes[1], list(given))]

    def first(y: Any, v: Any, *given: Any) -> list[Any]:
        return [y, v, *pt.grad(y + v[3], list(given))]

    at, run = np.array([0.1, 0.15, 0.7]), compiled(theirs, first)
    got = compiled(f, build)(*at)
    for value, want in zip(got[:5], run(*at), strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-8)
    # PyTensor 2.30 computes second derivatives of its own scan wrongly: these are differences of its first ones.
    for step, second in zip(1e-6 * np.eye(3), got[5:], strict=True):
        np.testing.assert_allclose(second, (run(*(at + step))[3] - run(*(at - step))[3]) / 2e-6, rtol=1e-5)


@needs_pytensor
def test_forward_mode_integers_and_shapes() -> None:
    f = sj.pytensor.as_op(lambda x, n: {"y": x * n, "last": x[-1], "n": n + 1}, "reference")
    x, n, dx = pt.dvector("x"), pt.lvector("n"), pt.dvector("dx")
    found = f(x, n)
    assert found["n"].dtype == "int64" and found["y"].type.shape == (None,)
    run = pytensor.function([x, n], [found["y"], found["n"], found["y"].shape[0], pt.grad(found["y"].sum(), x)])
    np.testing.assert_equal(run([1.0, 2.0], [3, 4]), ([3, 8], [4, 5], 2, [3, 4]))
    tangent = found["last"].owner.op.pushforward([x, n], list(found["y"].owner.outputs), [dx, n.zeros_like()])
    np.testing.assert_array_equal(tangent[0].eval({x: [1.0, 2.0], n: [3, 4], dx: [1.0, 10.0]}), [3, 40])


@needs_pytensor
def test_compiled_functions_names_and_pickles() -> None:
    x, w = sj.vector("x"), sj.scalar("w")
    f = sj.pytensor.as_op(sj.function([x, w], [x * w, w], mode="reference"))
    np.testing.assert_array_equal(f(w=2.0, x=[1.0, 3.0])[0].eval(), [2, 6])
    again = pickle.loads(pickle.dumps(f))
    np.testing.assert_array_equal(again([1.0, 3.0], 2.0)[0].eval(), [2, 6])
    assert isinstance(f, PytensorFunction) and "scanjit.pytensor" in repr(f)


@needs_pytensor
def test_graphs_and_their_gradients_pickle() -> None:
    """PyMC pickles a model for each process that samples it, unless these are forks."""
    weight = sj.shared(2.0, "weight")
    x = pt.dvector("x")
    y = sj.pytensor.as_op(lambda x: sj.scan(lambda row, h: np.tanh(weight * h + row), x, 0.5)[-1], "reference")(x)
    graph = [x, y, pt.grad(y, x)]
    again = pickle.loads(pickle.dumps(graph))
    expected, found = ([part.eval({inputs: [0.1, 0.2]}) for part in parts] for inputs, *parts in (graph, again))
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(pt.grad(again[1], again[0]).eval({again[0]: [0.1, 0.2]}), expected[1])


@pytest.mark.filterwarnings("ignore:Numba will use object mode")  # PyTensor says it of complex numbers
@needs_pytensor
@pytest.mark.parametrize("compiled", [False, True])
def test_complex_arguments_and_results(compiled: bool, rng: np.random.Generator) -> None:
    """PyTensor has no gradients of complex variables; of real ones it has, whatever is complex inside."""
    x, w = sj.tensor(("n",), "complex128", "x"), sj.tensor((), "complex128", "w")

    def turned(x: Any, w: Any) -> Any:
        return sj.scan(lambda row, h: w * h + row, x, sj.zeros((), "complex128"))

    ours = sj.pytensor.as_op(sj.function([x, w], turned(x, w)) if compiled else turned)
    rows, factor, angle = pt.zvector("x"), pt.zscalar("w"), pt.dscalar("angle")
    size = sj.pytensor.as_op(lambda x, a: sj.real(turned(x * 1j, sj.exp(1j * a))).sum())(np.ones(2), angle)
    f = pytensor.function([rows, factor, angle], [ours(rows, factor), pt.grad(size, angle)])
    given = rng.normal(size=5) + 1j * rng.normal(size=5)
    h, states = 0j, []
    for row in given:
        h = (0.3 + 0.4j) * h + row
        states.append(h)
    found, slope = f(given, 0.3 + 0.4j, 0.7)
    np.testing.assert_allclose(found, states, rtol=1e-12)
    np.testing.assert_allclose(slope, -np.cos(0.7), rtol=1e-12)


@needs_pytensor
def test_errors() -> None:
    with pytest.raises(sj.ArgumentError, match="only a function can become a function for"):
        sj.pytensor.as_op(3)  # type: ignore[arg-type]
    state = sj.shared(np.zeros(2))
    with pytest.raises(sj.ArgumentError, match="updates shared variables, which a function for PyTensor cannot"):
        sj.pytensor.as_op(sj.function([], state, updates={state: state + 1}, mode="reference"))
    with pytest.raises(sj.ArgumentError, match="by position"):
        sj.pytensor.as_op(garch)(returns=1.0)
    x = sj.vector("x")
    with pytest.raises(sj.ArgumentError, match="has another type"):
        sj.pytensor.as_op(sj.function([x], x * 2, mode="reference"))(pt.fvector())
    checked = sj.pytensor.as_op(lambda x: sj.assert_(x > 0, x, "positive"), "reference")
    with pytest.raises(sj.AssertError, match="positive"):
        pytensor.function([], checked(np.array([-1.0])), mode="FAST_COMPILE")()


@needs_pytensor
def test_pymc_samples_a_garch_model() -> None:
    """NUTS takes the same steps with our loop and with PyTensor's: the draws are the same."""
    pm = pytest.importorskip("pymc")

    def draws(f: Callable[..., Any]) -> dict[str, np.ndarray]:
        with pm.Model():
            omega, alpha = pm.HalfNormal("omega", 1.0), pm.Beta("alpha", 2.0, 8.0)
            beta = pm.Beta("beta", 5.0, 5.0)
            pm.Potential("likelihood", f(RETURNS, omega, alpha * 0.5, beta * 0.9)[0])
            options: Any = {"chains": 1, "cores": 1, "progressbar": False, "compute_convergence_checks": False}
            trace = pm.sample(60, tune=60, random_seed=1, **options).posterior
        return {name: trace[name].values for name in ("omega", "alpha", "beta")}

    mine, other = draws(sj.pytensor.as_op(garch)), draws(theirs)
    for name, values in mine.items():
        assert values.std() > 0
        np.testing.assert_allclose(values[0, :20], other[name][0, :20], rtol=1e-3)


@needs_pytensor
def test_numbers_take_the_dtype_of_the_floats() -> None:
    """PyTensor would take a small dtype for a number that it holds, such as int8 for 3."""
    f = sj.pytensor.as_op(lambda x, a: x * a * 100, "reference")
    singles = pt.as_tensor(np.ones(2, "float32"))
    for number in (0.1, 0.5):
        assert f(singles, number).dtype == "float32" and f(np.ones(2), number).dtype == "float64"
        assert f(np.arange(2), number).dtype == pytensor.config.floatX
    assert f(pt.as_tensor(np.arange(2, dtype="int8")), 3).eval().tolist() == [0, 300]
    row = pt.dscalar()
    assert f([row, 1.0], 3).eval({row: 2.0}).tolist() == [600.0, 300.0]
