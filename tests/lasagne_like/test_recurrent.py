"""Lasagne's recurrent layers: their arguments, parameters and numbers."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like import init, nonlinearities
from lasagne_like.layers import (
    CustomRecurrentLayer,
    DenseLayer,
    DropoutLayer,
    Gate,
    GRULayer,
    InputLayer,
    Layer,
    LSTMLayer,
    RecurrentLayer,
    get_all_layers,
    get_all_params,
    get_output,
    get_output_shape,
)
from tests.lasagne_like import numpy_cells as oracle
from tests.lasagne_like.recurrent_support import check_slope, close, randomize, values, weighted
from tests.pairs import pairwise

BATCH, LENGTH, INPUTS, UNITS = 3, 5, 2, 4
HOLES = np.array([[1, 0, 1, 1, 0], [0, 0, 1, 1, 1], [0, 0, 0, 0, 0]])


def recurrent_step(P: Any, x: Any, s: Any) -> Any:
    z = x @ P["input_to_hidden.W"] + P["input_to_hidden.b"] + s["hid"] @ P["hidden_to_hidden.W"]
    h = np.tanh(z)
    return h, {"hid": h}


def make_recurrent(incoming: Any, **kwargs: Any) -> Any:
    return RecurrentLayer(incoming, UNITS, nonlinearity=nonlinearities.tanh, **kwargs)


def make_lstm(incoming: Any, **kwargs: Any) -> Any:
    return LSTMLayer(incoming, UNITS, **kwargs)


def make_gru(incoming: Any, **kwargs: Any) -> Any:
    return GRULayer(incoming, UNITS, **kwargs)


KINDS: dict[str, Any] = {
    "recurrent": (make_recurrent, recurrent_step, ["hid"]),
    "lstm": (make_lstm, oracle.lstm, ["cell", "hid"]),
    "gru": (make_gru, oracle.gru, ["hid"]),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


class Setting:
    """A layer with random parameters, its input and mask, and what the oracle needs to follow it."""

    def __init__(self, kind: str, mask: bool = False, shape: Any = (None, None, INPUTS), **options: Any) -> None:
        make, self.step, self.parts = KINDS[kind]
        self.l_in, self.l_mask = InputLayer(shape), InputLayer((None, None))
        self.mask = HOLES if mask else None
        self.options = options
        self.layer = make(self.l_in, mask_input=self.l_mask if mask else None, **options)
        randomize(get_all_params(self.layer))
        self.x = np.random.default_rng(1).normal(size=(BATCH, LENGTH, INPUTS))

    def given(self) -> dict[Any, Any]:
        masks = {} if self.mask is None else {self.l_mask.input_var: self.mask.astype("float64")}
        return {self.l_in.input_var: self.x, **masks}

    @property
    def point(self) -> dict[str, np.ndarray]:
        return {**values(get_all_params(self.layer)), "x": self.x}

    def by_oracle(self, point: dict[str, np.ndarray]) -> np.ndarray:
        start = {name: np.repeat(point[f"{name}_init"], BATCH, 0) for name in self.parts}
        backwards = self.options.get("backwards", False)
        output, _ = oracle.unfolded(self.step, point, point["x"], start, mask=self.mask, backwards=backwards)
        if self.options.get("only_return_final"):
            return output[:, 0 if backwards else -1]
        return output


@pytest.mark.quick(6)
@pairwise(final=[False, True], backwards=[False, True], mask=[False, True])
def test_values_and_gradients(kind: str, mask: bool, backwards: bool, final: bool, run: Any) -> None:
    setting = Setting(kind, mask, backwards=backwards, only_return_final=final, learn_init=True)
    output = get_output(setting.layer)
    point = setting.point
    expected = setting.by_oracle(point)
    weights = [np.random.default_rng(2).normal(size=expected.shape)]
    wrt = [*get_all_params(setting.layer), setting.l_in.input_var]
    found, *slopes = run([output, *sj.grad(weighted([output], weights), wrt)], setting.given())
    close(found, expected)
    check_slope(lambda p: [setting.by_oracle(p)], point, weights, dict(zip(point, slopes, strict=True)))


def test_loop_unrolled_and_precomputed_agree(kind: str, run: Any) -> None:
    reference = None
    for unroll in (False, True):
        for precompute in (False, True):
            setting = Setting(
                kind,
                True,
                shape=(None, LENGTH, INPUTS),
                unroll_scan=unroll,
                precompute_input=precompute,
                backwards=True,
                grad_clipping=0.05,
            )
            output = get_output(setting.layer)
            params = get_all_params(setting.layer, trainable=True)
            found = run([output, *sj.grad(sj.sum(output**2), [*params, setting.l_in.input_var])], setting.given())
            reference = reference or found
            for a, b in zip(found, reference, strict=True):
                close(a, b, 1e-12)


def test_compiled_for_many_sizes(kind: str, rng: np.random.Generator) -> None:
    setting = Setting(kind, True, only_return_final=True)
    output = get_output(setting.layer)
    f = sj.function(
        [setting.l_in.input_var, setting.l_mask.input_var], [output, sj.grad(output.sum(), setting.l_in.input_var)]
    )
    for batch, length in ((3, 5), (1, 1), (17, 2), (2, 33)):
        x = rng.normal(size=(batch, length, INPUTS))
        mask = rng.integers(0, 2, (batch, length))
        P = setting.point
        start = {name: np.repeat(P[f"{name}_init"], batch, 0) for name in setting.parts}
        expected, _ = oracle.unfolded(setting.step, P, x, start, mask=mask)
        got, slope = f(x, mask.astype("float64"))
        close(got, expected[:, -1])
        assert slope.shape == x.shape
        assert (slope[mask == 0] == 0).all()
        assert got.shape == get_output_shape(setting.layer, {setting.l_in: x.shape, setting.l_mask: mask.shape})


def test_float32(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sj.config, "floatX", "float32")
    setting = Setting(kind, learn_init=True)
    setting.x = setting.x.astype("float32")
    output = get_output(setting.layer)
    params = get_all_params(setting.layer)
    outputs = [output, *sj.grad(output.sum(), params)]
    found = sj.function([setting.l_in.input_var], outputs, mode="emulate")(setting.x)
    assert all(y.dtype == np.float32 for y in found)
    close(found[0], setting.by_oracle(setting.point), 1e-4)


@pytest.mark.parametrize("shape", [(3, 5, 2), (None, 5, 2), (3, None, 2), (None, None, 2)])
def test_shapes(kind: str, shape: Any, run: Any) -> None:
    for final in (False, True):
        for backwards in (False, True):
            layer = KINDS[kind][0](InputLayer(shape), only_return_final=final, backwards=backwards)
            full = get_output(layer)
            assert layer.output_shape == ((shape[0], UNITS) if final else (*shape[:2], UNITS))
            assert tuple(s if isinstance(s, int) else None for s in full.shape) == layer.output_shape
            assert get_output_shape(layer, (3, 5, 2)) == ((3, UNITS) if final else (3, 5, UNITS))


def test_features_are_flattened(kind: str, run: Any) -> None:
    l_in = InputLayer((None, None, 3, 2))
    layer = KINDS[kind][0](l_in)
    flat_in = InputLayer((None, None, 6))
    flat = KINDS[kind][0](flat_in)
    lasagne.layers.set_all_param_values(flat, lasagne.layers.get_all_param_values(layer))
    x = np.random.default_rng(0).normal(size=(2, 4, 3, 2))
    a = run(get_output(layer), {l_in.input_var: x})
    close(a, run(get_output(flat), {flat_in.input_var: x.reshape(2, 4, 6)}))


# ---- initial states --------------------------------------------------------------------------------------------------


def test_initial_states(run: Any, rng: np.random.Generator) -> None:
    """Callables, arrays, shared variables, expressions and layers."""
    start, each = rng.normal(size=(1, UNITS)), rng.normal(size=(BATCH, UNITS))
    l_in, x = InputLayer((None, None, INPUTS)), rng.normal(size=(BATCH, LENGTH, INPUTS))
    l_state = InputLayer((None, UNITS))
    kept = sj.shared(start)
    for given, value, learned in [
        (init.Constant(0.3), np.full((1, UNITS), 0.3), True),
        (start, start, True),
        (kept, start, True),
        (sj.constant(each) * 1.0, each, False),
        (l_state, each, False),
    ]:
        layer = LSTMLayer(l_in, UNITS, cell_init=given, hid_init=init.Constant(0.1), learn_init=True)
        names = [p.name for p in get_all_params(layer, trainable=True)]
        assert ("cell_init" in names) is learned and "hid_init" in names
        assert "cell_init" not in [p.name for p in get_all_params(layer, regularizable=True)]
        symbols = {l_in.input_var: x, **({l_state.input_var: each} if given is l_state else {})}
        start_of = {"cell": np.broadcast_to(value, (BATCH, UNITS)), "hid": np.full((BATCH, UNITS), 0.1)}
        expected, _ = oracle.unfolded(oracle.lstm, values(get_all_params(layer)), x, start_of)
        close(run(get_output(layer), symbols), expected)
    assert kept.name == "cell_init"
    assert get_all_layers(LSTMLayer(l_in, UNITS, hid_init=l_state))[:2] == [l_in, l_state]


def test_initial_states_are_not_trained_unless_asked(kind: str) -> None:
    layer = Setting(kind).layer
    assert {p.name for p in get_all_params(layer)} >= {"hid_init"}
    assert "hid_init" not in {p.name for p in get_all_params(layer, trainable=True)}


def test_gradient_reaches_the_layer_that_gives_the_state(run: Any) -> None:
    l_in, l_state = InputLayer((None, None, INPUTS)), InputLayer((None, 3))
    l_hid = DenseLayer(l_state, UNITS, nonlinearity=None)
    layer = GRULayer(l_in, UNITS, hid_init=l_hid, only_return_final=True)
    output = get_output(layer)
    slope = run(
        sj.grad(output.sum(), l_hid.W), {l_in.input_var: np.ones((2, 3, INPUTS)), l_state.input_var: np.ones((2, 3))}
    )
    assert np.abs(slope).min() > 0


# ---- clipping and truncation -----------------------------------------------------------------------------------------


def test_clipping_by_hand(run: Any) -> None:
    """One unit, `h = w * h_ + x`: back through the loop the gradient is cut in every step."""
    l_in = InputLayer((1, None, 1))
    for precompute in (True, False):
        layer = RecurrentLayer(
            l_in,
            1,
            W_in_to_hid=np.ones((1, 1)),
            W_hid_to_hid=np.full((1, 1), 3.0),
            nonlinearity=None,
            grad_clipping=2.0,
            precompute_input=precompute,
            only_return_final=True,
        )
        slope = run(sj.grad(get_output(layer).sum(), l_in.input_var), {l_in.input_var: np.ones((1, 4, 1))})
        # from the end: 1; 3 cut to 2; 6 cut to 2; ...
        close(slope[0, :, 0], [2, 2, 2, 1])


def test_clipping_cuts_at_the_gates(kind: str, run: Any) -> None:
    """The values are the same, and no gradient of a bias is larger than all cut pre-activations together."""
    plain, cut = Setting(kind), Setting(kind, grad_clipping=1e-3)
    outputs = [get_output(s.layer) for s in (plain, cut)]
    close(run(outputs[0], plain.given()), run(outputs[1], cut.given()))
    biases = [p for p in get_all_params(cut.layer) if "b" in (p.name or "").split(".")[-1].split("_")[0]]
    slopes = run(sj.grad(100 * outputs[1].sum(), biases), cut.given())
    assert biases
    for slope in slopes:
        assert 0 < np.abs(slope).max() <= BATCH * LENGTH * 1e-3 + 1e-12


def test_gru_clips_the_same_with_and_without_precomputing(run: Any) -> None:
    slopes = []
    for precompute in (True, False):
        setting = Setting("gru", precompute_input=precompute, grad_clipping=0.01)
        output = get_output(setting.layer)
        slopes.append(run(sj.grad(100 * output.sum(), setting.l_in.input_var), setting.given()))
    close(slopes[0], slopes[1], 1e-12)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_truncation(kind: str, steps: int, run: Any) -> None:
    """Through the last so many steps only: what came before is as good as constant."""
    setting = Setting(kind, gradient_steps=steps, only_return_final=True)
    slope = run(sj.grad(get_output(setting.layer).sum(), setting.l_in.input_var), setting.given())
    whole = Setting(kind, only_return_final=True)
    full = run(sj.grad(get_output(whole.layer).sum(), whole.l_in.input_var), whole.given())
    assert (slope[:, : LENGTH - steps] == 0).all()
    close(slope[:, LENGTH - steps :], full[:, LENGTH - steps :])


# ---- masks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bool", "int32"])
def test_masks_of_any_dtype(dtype: str, run: Any) -> None:
    setting = Setting("lstm", True)
    mask = sj.tensor((None, None), dtype)
    output = get_output(setting.layer, {setting.l_in: setting.l_in.input_var, setting.l_mask: mask})
    close(run(output, {setting.l_in.input_var: setting.x, mask: HOLES.astype(dtype)}), setting.by_oracle(setting.point))


def test_a_mask_of_one_row_is_for_all(run: Any) -> None:
    l_in, l_mask = InputLayer((None, None, INPUTS)), InputLayer((1, None))
    layer = GRULayer(l_in, UNITS, mask_input=l_mask)
    x = np.random.default_rng(0).normal(size=(BATCH, LENGTH, INPUTS))
    row = np.array([[1.0, 0, 1, 0, 1]])
    output, _ = oracle.unfolded(
        oracle.gru, values(layer.get_params()), x, {"hid": np.zeros((BATCH, UNITS))}, mask=np.repeat(row, BATCH, 0)
    )
    close(run(get_output(layer), {l_in.input_var: x, l_mask.input_var: row}), output)


def test_a_batch_of_one(kind: str, run: Any) -> None:
    setting = Setting(kind, True, shape=(1, None, INPUTS))
    given = {setting.l_in.input_var: setting.x[:1], setting.l_mask.input_var: HOLES[:1].astype(float)}
    close(run(get_output(setting.layer), given), setting.by_oracle(setting.point)[:1])


# ---- Gate ------------------------------------------------------------------------------------------------------------


def test_gates_without_biases_and_peepholes(run: Any) -> None:
    gate = Gate(W_cell=None, b=None)
    l_in = InputLayer((None, None, INPUTS))
    layer = LSTMLayer(l_in, UNITS, ingate=gate, forgetgate=Gate(W_cell=None), outgate=gate, cell=gate)
    assert layer.b_ingate is None and layer.W_cell_to_outgate is None
    assert [p.name for p in layer.get_params() if p.name.startswith("b")] == ["b_forgetgate"]
    assert run(get_output(layer), {l_in.input_var: np.ones((2, 3, INPUTS))}).shape == (2, 3, UNITS)


def test_gates_have_nonlinearities_of_their_own(run: Any) -> None:
    l_in = InputLayer((1, 1, 1))
    one = init.Constant(1.0)
    linear = Gate(one, one, None, one, nonlinearity=None)
    layer = LSTMLayer(l_in, 1, ingate=linear, forgetgate=linear, cell=linear, outgate=linear, nonlinearity=None)
    assert layer.nonlinearity_ingate is nonlinearities.identity
    # every gate is x + 1 = 3: the memory is 9, the output 27
    close(run(get_output(layer), {l_in.input_var: np.full((1, 1, 1), 2.0)}), [[[27.0]]])


def test_gru_ignores_peepholes() -> None:
    assert not any("cell" in p.name for p in GRULayer((None, None, 2), 3, resetgate=Gate()).get_params())


# ---- CustomRecurrentLayer --------------------------------------------------------------------------------------------


class _Blur(lasagne.layers.Layer):
    """Something that is no dense layer: it keeps feature axes, and multiplies by a parameter for each place."""

    def __init__(self, incoming: Any, **kwargs: Any) -> None:
        super().__init__(incoming, **kwargs)
        self.scale = self.add_param(init.Normal(0.5), self.input_shape[1:], name="scale")

    def get_output_for(self, input: Any, deterministic: bool = False, **kwargs: Any) -> Any:
        return input * self.scale * (1 if deterministic else 2)


def test_custom_layers_with_several_feature_axes(run: Any, rng: np.random.Generator) -> None:
    l_in, l_mask = InputLayer((None, None, 3, 2)), InputLayer((None, None))
    x = rng.normal(size=(BATCH, LENGTH, 3, 2))
    for precompute in (True, False):
        i2h, h2h = _Blur(InputLayer((None, 3, 2)), name="in"), _Blur(InputLayer((None, 3, 2)), name="hid")
        layer = CustomRecurrentLayer(
            l_in,
            i2h,
            h2h,
            nonlinearities.tanh,
            init.Normal(1.0),
            mask_input=l_mask,
            precompute_input=precompute,
            name="r",
        )
        assert layer.output_shape == (None, None, 3, 2)
        assert [p.name for p in get_all_params(layer)] == ["r.hid_init", "in.scale", "hid.scale"]
        assert [p.name for p in get_all_params(layer, regularizable=True)] == ["in.scale", "hid.scale"]
        P = values(get_all_params(layer))
        for factor, options in ((2, {}), (1, {"deterministic": True})):

            def step(P: Any, x: Any, s: Any, k: int = factor) -> Any:
                h = np.tanh(k * x * P["in.scale"] + k * s["hid"] * P["hid.scale"])
                return h, {"hid": h}

            start = {"hid": np.repeat(P["r.hid_init"], BATCH, 0)}
            expected, _ = oracle.unfolded(step, P, x, start, mask=HOLES)
            given = {l_in.input_var: x, l_mask.input_var: HOLES.astype(float)}
            close(run(get_output(layer, **options), given), expected)


def test_running_averages_of_layers_inside(run: Any) -> None:
    """Batch normalization of the input: over batch and time at once; its updates are found from outside."""
    l_in = InputLayer((None, None, INPUTS))
    i2h = lasagne.layers.BatchNormLayer(DenseLayer(InputLayer((None, INPUTS)), UNITS, nonlinearity=None), alpha=1.0)
    h2h = DenseLayer(InputLayer((None, UNITS)), UNITS, nonlinearity=None)
    layer = CustomRecurrentLayer(l_in, i2h, h2h)
    output = get_output(layer)
    x = np.random.default_rng(0).normal(size=(BATCH, LENGTH, INPUTS))
    run(output, {l_in.input_var: x}, updates=lasagne.layers.get_updates(layer))
    W = i2h.input_layer.W.get_value()
    close(i2h.mean.get_value(), (x @ W).mean((0, 1)))


def test_custom_layer_errors() -> None:
    def dense(inputs: int, units: int, batch: Any = None) -> Any:
        return DenseLayer(InputLayer((batch, inputs)), units)

    with pytest.raises(ValueError, match=r"same shape behind the batch.*\(None, 4\).*\(None, 5\)"):
        CustomRecurrentLayer((None, None, 3), dense(3, 4), dense(5, 5))
    with pytest.raises(ValueError, match=r"InputLayer has \(None, 6\), its output has \(None, 4\)"):
        CustomRecurrentLayer((None, None, 3), dense(3, 4), dense(6, 4))
    with pytest.raises(ValueError, match=r"one step of the input \(None, None, 3\): \(None, 3\), got \(None, 2\)"):
        CustomRecurrentLayer((None, None, 3), dense(2, 4), dense(4, 4))
    with pytest.raises(ValueError, match=r"10 rows at once.*\(5, 4\)"):
        CustomRecurrentLayer((2, 5, 3), dense(3, 4, 5), dense(4, 4))
    with pytest.raises(ValueError, match=r"same batch, or None.*\(5, 4\).*\(2, 4\)"):
        CustomRecurrentLayer((2, 5, 3), dense(3, 4, 5), dense(4, 4, 2), precompute_input=False)
    with pytest.raises(ValueError, match=r"unknown number of rows at once.*\(5, 3\).*\(5, 4\)"):
        CustomRecurrentLayer((2, None, 3), dense(3, 4, 5), dense(4, 4))
    with pytest.raises(
        ValueError, match=r"hidden_to_hidden must be made with .* \(2, 5, 3\).* its InputLayer has \(3, 4\)"
    ):
        CustomRecurrentLayer((2, 5, 3), dense(3, 4), dense(4, 4, 3))
    with pytest.raises(
        ValueError, match=r"input_to_hidden must be made with .* \(2, 5, 3\).* its InputLayer has \(5, 3\)"
    ):
        CustomRecurrentLayer((2, 5, 3), dense(3, 4, 5), dense(4, 4), precompute_input=False)
    two = lasagne.layers.ElemwiseSumLayer([dense(3, 4), dense(3, 4)])
    with pytest.raises(ValueError, match=r"input_to_hidden must have exactly one InputLayer, got 2"):
        CustomRecurrentLayer((None, None, 3), two, dense(4, 4))
    with pytest.raises(ValueError, match=r"hidden_to_hidden must have exactly one InputLayer, got 0"):
        CustomRecurrentLayer((None, None, 3), dense(3, 4), DenseLayer((None, 4), 4))


@pytest.mark.parametrize("names", [("hid", "cell"), ("cell", "hid")])
def test_layers_of_the_initial_state_go_where_they_are_named(run: Callable[..., Any], names: tuple[str, str]) -> None:
    l_in, mask, hid, cell = (InputLayer(shape) for shape in ((None, None, 2), (None, None), (None, 3), (None, 3)))
    state = {name: {"hid": hid, "cell": cell}[name] for name in names}
    layer = lasagne.layers.RNNLayer(l_in, lasagne.cells.LSTM(3), state, mask_input=mask)
    assert layer.input_layers == [l_in, mask, *state.values()]
    nothing = np.zeros((1, 1, 2))  # the state is kept where the mask is false
    values = {l_in: nothing, mask: np.zeros((1, 1)), hid: np.ones((1, 3)), cell: np.full((1, 3), 2.0)}
    given = {one.input_var: value for one, value in values.items()}
    found = run(layer.init_state(1, [one.input_var for one in state.values()]), given)
    close(np.concatenate(list(found), 0), [[2.0] * 3, [1.0] * 3])  # the state is (cell, hid)


def test_an_lstm_lists_its_inputs_as_lasagne_does() -> None:
    l_in, mask, hid, cell = (InputLayer(shape) for shape in ((None, None, 2), (None, None), (None, 3), (None, 3)))
    layer = lasagne.layers.LSTMLayer(l_in, 3, hid_init=hid, cell_init=cell, mask_input=mask)
    assert layer.input_layers == [l_in, mask, hid, cell]


# ---- errors ----------------------------------------------------------------------------------------------------------


def test_unrolling_needs_a_length(kind: str) -> None:
    make = KINDS[kind][0]
    with pytest.raises(ValueError, match=r"fixed number of steps.*\(None, None, 2\)"):
        make((None, None, INPUTS), unroll_scan=True)
    with pytest.raises(ValueError, match="gradient_steps must be -1, got 3"):
        make((None, 5, INPUTS), unroll_scan=True, gradient_steps=3)
    make((None, 5, INPUTS), unroll_scan=True)


def test_unrolling_an_input_that_does_not_know_its_length(run: Any) -> None:
    x = sj.tensor3("x")
    layer = make_gru(InputLayer((None, LENGTH, INPUTS), x), unroll_scan=True)
    assert run(get_output(layer), {x: np.ones((2, LENGTH, INPUTS))}).shape == (2, LENGTH, UNITS)
    with pytest.raises(sj.ShapeError, match=r"(?s)the input of <GRULayer> has .*\(2, 4, 2\).*\(2, 5, 2\)"):
        run(get_output(layer), {x: np.ones((2, LENGTH - 1, INPUTS))})


def test_ranks_and_sizes(kind: str) -> None:
    make = KINDS[kind][0]
    with pytest.raises(ValueError, match=r"\(batch, time, features...\).*\(None, 3\)"):
        make((None, 3))
    with pytest.raises(ValueError, match=r"fixed sizes.*\(None, None, None\)"):
        make((None, None, None))
    with pytest.raises(ValueError, match=r"mask_input .* has shape \(None, 4\).*\(None, 5, 2\): \(None, 5\)"):
        make((None, 5, 2), mask_input=(None, 4))
    with pytest.raises(ValueError, match=r"mask_input .* has shape \(None, 5, 1\)"):
        make((None, 5, 2), mask_input=(None, 5, 1))
    with pytest.raises(ValueError, match=r"mask_input .* has shape \(7, 5\).*\(3, 5, 2\): \(3, 5\)"):
        make((3, 5, 2), mask_input=InputLayer((7, 5)))
    with pytest.raises(ValueError, match=r"hid_init.*shape \(1, 3\), should be \(1, 4\)"):
        make((None, None, 2), hid_init=np.zeros((1, 3)))
    with pytest.raises(ValueError, match=r"hid_init .* with shape \(None, 3\), expected \(None, 4\)"):
        make((None, None, 2), hid_init=InputLayer((None, 3)))
    with pytest.raises(ValueError, match=r"hid_init .* has shape \(None, 3\), expected \('batch', 4\)"):
        make((None, None, 2), hid_init=sj.tensor((None, 3)))


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_a_mask_of_another_shape_at_run_time(kind: str, mode: str) -> None:
    setting = Setting(kind, True)
    f = sj.function([setting.l_in.input_var, setting.l_mask.input_var], get_output(setting.layer), mode=mode)
    for shape in ((BATCH, LENGTH + 1), (BATCH, LENGTH - 1), (BATCH + 1, LENGTH), (1, LENGTH), (LENGTH, BATCH)):
        words = rf"(?s)the mask of {setting.layer} has another shape.*{re.escape(str(shape))}.*\(3, 5\)"
        with pytest.raises(sj.ShapeError, match=words):
            f(setting.x, np.ones(shape))


def test_initial_states_of_another_batch_at_run_time(kind: str, run: Any) -> None:
    l_in, l_hid = InputLayer((None, None, INPUTS)), InputLayer((None, UNITS))
    output = get_output(KINDS[kind][0](l_in, hid_init=l_hid))
    for batch in (1, BATCH + 1):
        words = rf"(?s)hid_init of <.*Layer> has another shape.*\({batch}, 4\).*\(3, 4\)"
        with pytest.raises(sj.ShapeError, match=words):
            run(output, {l_in.input_var: np.ones((BATCH, LENGTH, INPUTS)), l_hid.input_var: np.ones((batch, UNITS))})


def test_inputs_of_another_shape(kind: str) -> None:
    """Given to `get_output` in place of those that the layer was made for."""
    layer = KINDS[kind][0](InputLayer((None, None, INPUTS)), name="l")
    for x in (sj.tensor((7, 5, 3)), sj.tensor((7, 5))):
        words = rf"(?s)the value for <InputLayer> has another shape.*{re.escape(str(x.type.shape))}.*, 2\)"
        with pytest.raises(sj.ShapeError, match=words):
            get_output(layer, x)


def test_arguments_of_another_kind(kind: str) -> None:
    make, l_in = KINDS[kind][0], InputLayer((None, None, INPUTS))
    with pytest.raises(TypeError, match=r"mask_input of .* must be a layer .* got a ndarray"):
        make(l_in, mask_input=np.ones((2, 3)))
    with pytest.raises(TypeError, match=r"got a Node: give InputLayer\(shape, input_var=it\)"):
        make(sj.tensor3())
    with pytest.raises(TypeError, match=r"a layer, or a tuple .* got a NoneType"):
        make(None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'return_sequences'"):
        make(l_in, return_sequences=True)
    with pytest.raises(sj.ArgumentError, match=r"get_output\(layer\), or its input_var"):
        sj.sum(make(l_in))
    with pytest.raises(sj.ArgumentError, match="give its input_var"):
        sj.function([l_in], [])
    with pytest.raises(ValueError, match=r"several, of the shapes \(\(None, None, 4\), .*SelectLayer"):
        make(make(l_in, return_state=True))


def test_arguments_of_keras() -> None:
    l_in = InputLayer((None, None, INPUTS))
    with pytest.raises(TypeError, match=r"GRULayer got an unexpected .* 'return_sequences': .*only_return_final=True"):
        GRULayer(l_in, 3, return_sequences=True)
    with pytest.raises(TypeError, match=r"LSTMLayer got an unexpected keyword argument 'nothing'$"):
        LSTMLayer(l_in, 3, nothing=True)
    with pytest.raises(TypeError, match=r"GRULayer: .*'num_units'; the first argument is the layer that feeds it"):
        GRULayer(24)
    with pytest.raises(TypeError, match=r"DenseLayer got an unexpected .* 'activation': write nonlinearity="):
        DenseLayer(l_in, 3, activation="relu")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"DropoutLayer got an unexpected .* 'rate': write p="):
        DropoutLayer(l_in, rate=0.2)  # type: ignore[call-arg]


def test_the_words_of_keras_are_free_for_classes_that_take_them() -> None:
    class Scale(Layer):
        def __init__(self, incoming: Layer, rate: float, **more: Any) -> None:
            super().__init__(incoming, name=more.pop("mask"))
            self.rate = rate

    assert Scale(InputLayer((None, 3)), rate=2.0, mask="m").name == "m"
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'nothing'$"):
        DenseLayer(InputLayer((None, 3)), 3, nothing=1)  # type: ignore[call-arg]


def test_gates_and_units_of_another_kind() -> None:
    with pytest.raises(TypeError, match="resetgate of <GRU> must be a Gate, got None"):
        GRULayer((None, None, 2), 3, resetgate=None)  # type: ignore[arg-type]
    for units in ("4", 4.0):
        with pytest.raises(ValueError, match=rf"num_units of LSTMLayer must be an int, got {units!r}"):
            LSTMLayer((None, None, 2), units)  # type: ignore[arg-type]


# ---- the contract ----------------------------------------------------------------------------------------------------

_TAIL = (
    "gradient_steps=-1 grad_clipping=0 unroll_scan=False precompute_input=True mask_input=None only_return_final=False"
)
SIGNATURES = {
    RecurrentLayer: "incoming num_units W_in_to_hid W_hid_to_hid b nonlinearity hid_init backwards=False "
    "learn_init=False " + _TAIL,
    CustomRecurrentLayer: "incoming input_to_hidden hidden_to_hidden nonlinearity hid_init backwards=False "
    "learn_init=False " + _TAIL,
    LSTMLayer: "incoming num_units ingate forgetgate cell outgate nonlinearity cell_init hid_init backwards=False "
    "learn_init=False peepholes=True " + _TAIL,
    GRULayer: "incoming num_units resetgate updategate hidden_update hid_init backwards=False learn_init=False "
    + _TAIL,
    Gate: "W_in W_hid W_cell b nonlinearity",
}


@pytest.mark.parametrize("cls", SIGNATURES)
def test_signatures(cls: Any) -> None:
    found = [p for p in inspect.signature(cls.__init__).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD][1:]
    for parameter, text in zip(found, SIGNATURES[cls].split(), strict=True):
        name, _, default = text.partition("=")
        assert parameter.name == name
        assert not default or repr(parameter.default) == default


def test_names_and_order_of_parameters() -> None:
    def gate(name: str) -> list[str]:
        return [f"l.W_in_to_{name}", f"l.W_hid_to_{name}", f"l.b_{name}"]

    lstm = LSTMLayer((None, None, 2), 3, name="l")
    peepholes = [f"l.W_cell_to_{name}" for name in ("ingate", "forgetgate", "outgate")]
    gates = [*gate("ingate"), *gate("forgetgate"), *gate("cell"), *gate("outgate")]
    assert [p.name for p in lstm.get_params()] == [*gates, *peepholes, "l.cell_init", "l.hid_init"]
    assert [p.name for p in LSTMLayer((None, None, 2), 3, peepholes=False, name="l").get_params()][12:] == [
        "l.cell_init",
        "l.hid_init",
    ]
    gru = GRULayer((None, None, 2), 3, name="l")
    gates = [*gate("updategate"), *gate("resetgate"), *gate("hidden_update")]
    assert [p.name for p in gru.get_params()] == [*gates, "l.hid_init"]
    rnn = RecurrentLayer((None, None, 2), 3, name="l")
    inner = ["l.input_to_hidden.W", "l.input_to_hidden.b", "l.hidden_to_hidden.W"]
    assert [p.name for p in rnn.get_params()] == ["l.hid_init", *inner]
    for layer in (lstm, gru):
        for name in vars(layer):
            if name.startswith(("W_in", "W_hid", "b_")) and getattr(layer, name) is not None:
                assert getattr(layer, name).name == f"l.{name}"
    assert rnn.W_in_to_hid is rnn.input_to_hidden.W and rnn.b is rnn.input_to_hidden.b
    assert lstm.W_in_to_cell.shape == (2, 3) and gru.W_hid_to_hidden_update.shape == (3, 3)


def test_layers_may_share_parameters() -> None:
    one = GRULayer((None, None, 2), 3)
    gate = Gate(W_in=one.W_in_to_resetgate, W_hid=one.W_hid_to_resetgate, b=one.b_resetgate)
    other = GRULayer((None, None, 2), 3, resetgate=gate)
    assert other.W_in_to_resetgate is one.W_in_to_resetgate
    assert len(get_all_params([one, other])) == 2 * 10 - 3


def test_a_training_step_through_two_layers(rng: np.random.Generator) -> None:
    """The whole of it, compiled: the loss goes down."""
    l_in, l_mask = InputLayer((None, None, 2)), InputLayer((None, None))
    hidden = LSTMLayer(l_in, 8, mask_input=l_mask, grad_clipping=10)
    hidden = GRULayer(hidden, 8, mask_input=l_mask, backwards=True, only_return_final=True)
    network = DenseLayer(hidden, 1, nonlinearity=None)
    target = sj.vector("target")
    loss = sj.mean((get_output(network)[:, 0] - target) ** 2)
    updates = lasagne.updates.adam(loss, get_all_params(network, trainable=True), 0.02)
    train = sj.function([l_in.input_var, l_mask.input_var, target], loss, updates=updates)
    losses = []
    for _ in range(60):
        x, mask = rng.normal(size=(16, 6, 2)), rng.integers(0, 2, (16, 6)).astype(float)
        losses.append(float(train(x, mask, (x[:, :, 0] * mask).sum(1))))
    assert np.mean(losses[-10:]) < 0.5 * np.mean(losses[:10])


@pytest.mark.parametrize("layer", [lasagne.layers.RecurrentLayer, lasagne.layers.LSTMLayer, lasagne.layers.GRULayer])
def test_errors_name_the_argument(layer: Any) -> None:
    rows = lasagne.layers.InputLayer((None, None, 3))
    for steps in ("a", None, 1.5, True):
        with pytest.raises(ValueError, match=rf"gradient_steps of {layer.__name__} must be an int, got {steps!r}"):
            layer(rows, 4, gradient_steps=steps)
    with pytest.raises(ValueError, match=r"gradient_steps of .* must be -1 \(all steps\) or an int from 0 on, got -2"):
        layer(rows, 4, gradient_steps=-2)
    for bound in ("a", [1], -1):
        with pytest.raises(ValueError, match=r"grad_clipping of (Recurrent|LSTM|GRU)\w* must be a number"):
            layer(rows, 4, grad_clipping=bound)
