"""Truncated back-propagation against its definition, written down in NumPy: chunks, windows, the chain rule by hand."""

import numpy as np
import pytest

import scanjit as sj

RNG = np.random.default_rng(0)


def step(inputs, h, params):
    x, y = inputs
    h = sj.tanh(params["w"] * h + params["u"] * x)
    return h, ((h - y) ** 2).sum()


def by_hand(xs, ys, h0, w, u, k1, k2):
    """The loss, and the gradients by w, u and h0."""
    hs = [h0]
    for x in xs:
        hs.append(np.tanh(w * hs[-1] + u * x))
    loss = sum(((h - y) ** 2).sum() for h, y in zip(hs[1:], ys, strict=True))
    gw, gu, gh0 = 0.0, 0.0, np.zeros_like(h0)
    for start in range(0, len(xs), k1):
        end = min(start + k1, len(xs))
        first = max(0, start + k1 - k2)
        g = np.zeros_like(h0)
        for t in reversed(range(first, end)):
            if t >= start:
                g = g + 2 * (hs[t + 1] - ys[t])
            dz = g * (1 - hs[t + 1] ** 2)
            gw, gu, g = gw + (dz * hs[t]).sum(), gu + (dz * xs[t]).sum(), dz * w
        if first == 0:
            gh0 = gh0 + g
    return loss, gw, gu, gh0, hs[-1]


def problem():
    xs, ys, h0 = sj.tensor(("T", 2), name="xs"), sj.tensor(("T", 2), name="ys"), sj.vector("h0")
    return (xs, ys), h0, {"w": sj.scalar("w"), "u": sj.scalar("u")}


def values(steps):
    return RNG.normal(size=(steps, 2)), RNG.normal(size=(steps, 2)), RNG.normal(size=2), 0.9, 1.1


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    "k1, k2, mode",
    [(1, 1, "reference"), (3, 3, "reference"), (1, 4, "emulate"), (2, 6, "emulate"), (3, 5, "reference")]
    + [(3, 7, "emulate"), (4, 4, "emulate"), (20, 30, "reference"), (2, 40, "reference"), (2, 5, "numba")],
)
def test_against_the_chain_rule_by_hand(k1, k2, mode):
    sequences, h0, params = problem()
    loss, by_params, last = sj.tbptt(step, sequences, h0, params, k1, k2)
    f = sj.function([*sequences, h0, *params.values()], [loss, by_params["w"], by_params["u"], last], mode=mode)
    for steps in (11, 12, 1) if mode != "numba" else (11,):
        given = values(steps)
        expected = by_hand(*given, k1, k2)
        for got, wanted in zip(f(*given), (*expected[:3], expected[4]), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("k1, k2", [(3, 3), (2, 5), (4, 8)])
def test_windows_that_reach_the_initial_state(k1, k2):
    """It may be learned: by the chunks that reach it, also where a window begins exactly there."""
    sequences, h0, params = problem()
    _, by_start, _ = sj.tbptt(lambda i, h, p: step(i, h, params), sequences, h0, h0, k1, k2)
    f = sj.function([*sequences, h0, *params.values()], by_start, mode="reference")
    given = values(9)
    np.testing.assert_allclose(f(*given), by_hand(*given, k1, k2)[3], rtol=1e-10)


def test_one_window_over_everything_is_the_gradient():
    sequences, h0, params = problem()
    loss, by_params, _ = sj.tbptt(step, sequences, h0, params, 4, 100)
    _, losses = sj.scan(step, [sequences], [h0, None], [params])
    inputs = [*sequences, h0, *params.values()]
    whole = sj.function(inputs, [losses.sum(), sj.grad(losses.sum(), params)], mode="reference")
    f = sj.function(inputs, [loss, by_params], mode="reference")
    given = values(7)
    (a, by_a), (b, by_b) = f(*given), whole(*given)
    assert a == b
    for key in by_a:
        np.testing.assert_allclose(by_a[key], by_b[key], rtol=1e-12, atol=1e-13)


def test_states_and_inputs_have_structures():
    xs, w = sj.matrix("xs"), sj.shared([0.5, 0.25], "w")

    def both(inputs, state, params):
        h = state["h"] * params[0] + inputs["x"]
        return {"h": h, "count": state["count"] + 1}, h.sum()

    start = {"h": sj.zeros(2), "count": sj.constant(0)}
    loss, (by_w,), last = sj.tbptt(both, {"x": xs}, start, (w,), 2)
    f = sj.function([xs], [loss, by_w, last], mode="reference")
    _, slope, end = f(np.ones((4, 2)))
    assert end["count"] == 4
    h = [np.array([0.0, 0.0])]
    for _ in range(4):
        h.append(h[-1] * [0.5, 0.25] + 1)
    np.testing.assert_allclose(slope, h[0] + (h[1] + [0.5, 0.25] * h[0]) + h[2] + (h[3] + [0.5, 0.25] * h[2]))


def test_the_states_are_computed_once():
    sequences, h0, params = problem()
    loss, by_params, _ = sj.tbptt(step, sequences, h0, params, 2, 6)
    f = sj.function([*sequences, h0, *params.values()], [loss, by_params], mode="emulate")
    assert f.source.count("= tanh(") == 1, "one forward loop, and three backward"


def test_errors():
    sequences, h0, params = problem()
    for k1, k2 in ((0, None), (2.0, None), (True, None), (3, 2), (sj.iscalar("k"), None)):
        with pytest.raises(sj.ArgumentError, match="number of steps"):
            sj.tbptt(step, sequences, h0, params, k1, k2)
    with pytest.raises(sj.ScanError, match="the step of tbptt is not a function"):
        sj.tbptt(None, sequences, h0, params, 2)
    with pytest.raises(sj.ScanError, match="the step of tbptt does not take what it is given"):
        sj.tbptt(lambda i, h: (h, h.sum()), sequences, h0, params, 2)
    with pytest.raises(sj.ScanError, match="new state and the loss") as caught:
        sj.tbptt(lambda i, h, p: h, sequences, h0, params, 2)
    assert __file__ in str(caught.value)
    with pytest.raises(sj.ScanError, match="scalar of floats"):
        sj.tbptt(lambda i, h, p: (h * p["w"] + p["u"], h), sequences, h0, params, 2)
    with pytest.raises(sj.ArgumentError, match="needs sequences"):
        sj.tbptt(step, (), h0, params, 2)
    with pytest.raises(sj.GradientError, match="no gradient for u"):
        sj.tbptt(lambda i, h, p: (h * p["w"], h.sum()), sequences, h0, params, 2)
