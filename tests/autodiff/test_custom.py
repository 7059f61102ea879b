"""Functions with derivatives of their own: in loops, batches, both modes, any order; and what is refused."""

import numpy as np
import pytest

import scanjit as sj


@sj.custom_vjp
def exponential(x):
    return sj.exp(x)


@exponential.defvjp
def of_exponential(cotangent, output, x):
    return cotangent * output


@sj.custom_vjp
def odd(x, w):
    """Its derivative is not that of what it computes: so that it can be told which one was used."""
    return sj.tanh(x * w).sum()


@odd.defvjp
def of_odd(cotangent, output, x, w):
    return cotangent * sj.cos(x), cotangent * 3.0 * w


def run(inputs, outputs, *values, mode="reference"):
    return sj.function(inputs, outputs, mode=mode)(*values)


@pytest.mark.parametrize("mode", ["reference", "emulate", "numba"])
def test_the_rule_is_what_is_used(mode, rng: np.random.Generator):
    x, w = sj.tensor(("n",), name="x"), sj.tensor(("n",), name="w")
    vx, vw = rng.normal(size=(2, 5))
    y, by_x, by_w = run([x, w], [odd(x, w), *sj.grad(odd(x, w) * 2, [x, w])], vx, vw, mode=mode)
    np.testing.assert_allclose(y, np.tanh(vx * vw).sum(), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(by_x, 2 * np.cos(vx), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(by_w, 6 * vw, rtol=1e-12, atol=1e-13)


def test_any_order_and_forward_mode(rng: np.random.Generator):
    sj.check_grad(lambda x: (exponential(x) * x).sum(), [rng.normal(size=3)], order=3)
    x = sj.vector("x")
    outputs = [sj.jvp(odd(x, x), x, sj.cos(x)), sj.hessian(exponential(x * 2).sum(), x)]
    tangent, curvature = run([x], outputs, np.array([0.5, 1.0]))
    v = np.array([0.5, 1.0])
    np.testing.assert_allclose(tangent, (np.cos(v) * (np.cos(v) + 3 * v)).sum())
    np.testing.assert_allclose(curvature, np.diag(4 * np.exp(2 * v)))


def test_second_derivatives_of_a_rule_that_is_not_linear() -> None:
    """There is no forward mode. The Hessian is made in reverse mode."""
    clipped = sj.custom_vjp(lambda x: x * x * x)
    clipped.defvjp(lambda cotangent, output, x: sj.minimum(cotangent * 3 * x * x, 10.0))
    x, w = sj.vector("x"), sj.scalar("w")
    cost = (clipped(x) * w).sum()
    blocks = sj.hessian(cost, [x, w], mixed=True)
    xx, xw, wx, ww = run([x, w], [*blocks[0], *blocks[1]], np.array([0.5, 3.0]), 2.0)
    np.testing.assert_allclose(xx, np.diag([6.0, 0.0]))
    np.testing.assert_allclose(xw, [1.5 / 2, 0.0])
    np.testing.assert_allclose(run([x, w], sj.hessian(cost, [x, w])[0], np.array([0.5, 3.0]), 2.0), xx)
    assert ww == 0 and wx.shape == (2,)


def test_the_second_derivative_is_that_of_the_rule():
    x, w = sj.vector("x"), sj.vector("w")
    first = sj.grad(odd(x, w), x)
    second = run([x, w], sj.grad(first.sum(), x), np.array([0.3, 1.0]), np.ones(2))
    np.testing.assert_allclose(second, -np.sin([0.3, 1.0]))
    f = sj.custom_vjp(lambda x: x * 1.0)
    f.defvjp(lambda cotangent, output, x: cotangent * output * 2)
    twice = sj.grad(sj.grad(f(w).sum(), w).sum(), w)
    assert run([w], twice, [1.0, 3.0]).tolist() == [4, 12], "the output in the rule has the rule's derivative too"


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_inside_loops(mode, rng: np.random.Generator):
    xs, w = sj.matrix("xs"), sj.vector("w")

    def step(row, h):
        return 0.5 * h + odd(row + h * 0, w)

    hs = sj.scan(step, xs, sj.constant(0.0))
    vxs, vw = rng.normal(size=(4, 3)), rng.normal(size=3)
    by_xs, by_w = run([xs, w], sj.grad(hs[-1], [xs, w]), vxs, vw, mode=mode)
    decay = 0.5 ** np.arange(4)[::-1]
    np.testing.assert_allclose(by_xs, decay[:, None] * np.cos(vxs), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(by_w, decay.sum() * 3 * vw, rtol=1e-12, atol=1e-13)


def test_over_batches(rng: np.random.Generator):
    xs, w = sj.matrix("xs"), sj.vector("w")
    vxs, vw = rng.normal(size=(4, 3)), rng.normal(size=3)
    ys = sj.vmap(odd, (0, None))(xs, w)
    each = sj.vmap(lambda x: sj.grad(odd(x, w), x))(xs)
    assert not {"scan"} & {node.op.name for node in sj.ir.walk([ys, each])}, "a batch is no loop over the examples"
    values, by_xs, by_w, single = run([xs, w], [ys, *sj.grad(ys.sum(), [xs, w]), each], vxs, vw)
    np.testing.assert_allclose(values, np.tanh(vxs * vw).sum(1))
    np.testing.assert_allclose(by_xs, np.cos(vxs))
    np.testing.assert_allclose(by_w, 4 * 3 * vw)
    np.testing.assert_allclose(single, np.cos(vxs))


def test_structures_settings_and_integers():
    @sj.custom_vjp
    def f(p, i, kind, scale):
        assert kind == "plain"
        return {"y": p["a"] * p["b"][0] * scale, "count": i + 1}

    @f.defvjp
    def backward(g, output, p, i, kind, scale):
        assert g["count"] is None and scale == 2.0
        return {"a": g["y"] * 10, "b": (None,)}, None, None, None

    a, b, i = sj.vector("a", dtype="float32"), sj.vector("b", dtype="float32"), sj.iscalar("i")
    out = f({"a": a, "b": (b,)}, i, "plain", 2.0)
    assert out["y"].dtype == np.float32 and out["count"].dtype == np.int32
    outputs = [out["y"], out["count"], *sj.grad(out["y"].sum(), [a, b])]
    got = run([a, b, i], outputs, np.float32([1, 2]), np.float32([3, 4]), np.int32(5))
    assert [v.tolist() for v in got] == [[6, 16], 6, [10, 10], [0, 0]]


def test_several_results_have_one_call_of_the_rule():
    calls = []

    @sj.custom_vjp
    def f(x):
        return x * 2, x * 3

    @f.defvjp
    def backward(g, output, x):
        calls.append(g)
        return g[0] * 10 + g[1] * 100

    x = sj.scalar("x")
    u, v = f(x)
    assert run([x], [sj.grad(u + v, x), sj.grad(v, x)], 1.0) == [110, 100] and len(calls) == 2


def test_functions_of_each_other(rng: np.random.Generator):
    first, second = sj.custom_vjp(sj.sin), sj.custom_vjp(sj.cos)
    first.defvjp(lambda g, output, x: g * second(x))
    second.defvjp(lambda g, output, x: -g * first(x))
    sj.check_grad(lambda x: first(x).sum(), [rng.normal(size=3)], order=2)


def test_a_number_is_a_cotangent_of_the_right_type():
    f = sj.custom_vjp(lambda x: x.sum())
    f.defvjp(lambda g, output, x: (1.5,))
    x = sj.vector("x", dtype="float32")
    g = sj.grad(f(x), x)
    assert g.dtype == np.float32 and run([x], g, np.zeros(2, "float32")).tolist() == [1.5, 1.5]


def test_what_is_loaded_has_lost_the_rule(tmp_path):
    x = sj.scalar("x")
    f = sj.function([x], [exponential(x), sj.grad(exponential(x), x)], mode="reference")
    f.save(tmp_path / "f")
    g = sj.load(tmp_path / "f")
    assert g(1.0) == f(1.0)
    with pytest.raises(sj.GradientError, match="no part of a file"):
        sj.grad(g.graph.outputs[0], g.graph.inputs[0])


# ---- errors ----------------------------------------------------------------------------------------------------------


def refused(backward, match, *, args=None, fn=lambda x, y: (x * y).sum()):
    f = sj.custom_vjp(fn)
    if backward is not None:
        f.defvjp(backward)
    x, y = args or (sj.vector("x"), sj.vector("y"))
    with pytest.raises(sj.GradientError, match=match) as caught:
        sj.grad(f(x, y), x)
    return str(caught.value)


def test_errors_of_the_rule():
    refused(None, "custom_vjp without a rule")
    text = refused(lambda g, output, x, y: x, "one cotangent for each argument")
    assert __file__ in text
    refused(lambda g, output, x, y: (x,), "one cotangent for each argument")
    refused(lambda g, output, x, y: (x, y, y), "one cotangent for each argument")
    refused(lambda g, output, x, y: (x.sum(), y), r"argument 0 does not fit")
    refused(lambda g, output, x, y: (x.astype("float32"), y), r"argument 0 does not fit")
    refused(lambda g, output, x, y: (x, "y"), r"argument 1 does not fit")
    refused(lambda g, output, x, y: ((x, x), y), "another structure")
    fixed = (sj.tensor((3,), name="x"), sj.tensor((3,), name="y"))
    refused(lambda g, output, x, y: (sj.zeros(4), y), r"argument 0 does not fit", args=fixed)
    refused(lambda g, output, x, y: (x, 1.0), "is a setting", args=(sj.vector("x"), 2.0))
    whole = sj.ivector("i")
    refused(lambda g, output, x, y: (x, g), "not of floats", args=(sj.vector("x"), whole))


def test_what_it_uses_must_be_arguments():
    x, w = sj.vector("x"), sj.shared([1.0, 2.0], "w")
    with pytest.raises(sj.GradientError, match="'w' without taking it as an argument"):
        sj.custom_vjp(lambda x: x * w)(x)
    counts = sj.shared([1, 2], "counts")
    f = sj.custom_vjp(lambda x: x * sj.stop_gradient(w) * 2 * counts)
    f.defvjp(lambda g, output, x: g * w)
    assert run([x], sj.grad(f(x).sum(), x), [1.0, 1.0]).tolist() == [1, 2]


def test_a_rule_that_is_not_linear_has_no_forward_mode():
    f = sj.custom_vjp(lambda x: x * 1)
    f.defvjp(lambda g, output, x: sj.clip(g, -1.0, 1.0))
    x = sj.vector("x")
    assert run([x], sj.grad((f(x) * 5).sum(), x), [1.0]).tolist() == [1]
    with pytest.raises(sj.GradientError, match="not linear"):
        sj.jvp(f(x), x, x)
    with pytest.raises(sj.ArgumentError):
        sj.custom_vjp(3)
    with pytest.raises(sj.ArgumentError):
        f.defvjp(None)
