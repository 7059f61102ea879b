"""Every cell against NumPy, step by step: values, gradients, masks, both directions, one step a call."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import cells, init, layers, nonlinearities
from lasagne_like.cells import structure
from tests.lasagne_like import numpy_cells as oracle, numpy_cells_of_late as late, numpy_cells_of_tensorflow as tf
from tests.lasagne_like.recurrent_support import check_slope, close, named, randomize, values, weighted

peep = cells.Gate(W_cell=init.Normal(0.5))
blind = cells.Gate(W_cell=None)


class Case(NamedTuple):
    make: Callable[[], cells.Cell]
    step: Callable[..., Any]
    features: tuple[int, ...] = (3,)
    positive: tuple[str, ...] = ()
    """Parameters and parts of the state that are."""


class Timed(cells.Wrapper):
    """A cell that reads pairs, of one vector: its first element is the time."""

    def make_params(self, input_shape: Any) -> None:
        self.build_inner(self.cell, ((1,), (input_shape[0] - 1,)))
        self.state_shape, self.output_shape = self.cell.state_shape, self.cell.output_shape

    def precompute(self, x: Any) -> Any:
        return self.cell.precompute((x[..., :1], x[..., 1:]))


def projected_gru(P: Any, x: Any, s: Any) -> Any:
    h, new = oracle.gru(P, x, s)
    return h @ P["W"] + P["b"], new


CASES = {
    "SimpleRNN": Case(lambda: cells.SimpleRNN(4), oracle.simple_rnn),
    "IndRNN": Case(lambda: cells.IndRNN(4), oracle.indrnn),
    "LSTM": Case(lambda: cells.LSTM(4), oracle.lstm),
    "LSTM-peepholes": Case(lambda: cells.LSTM(4, peepholes=True), oracle.lstm),
    "LSTM-one-peephole": Case(lambda: cells.LSTM(4, blind, blind, peepholes=True), oracle.lstm),
    "LSTM-forget-bias": Case(lambda: cells.LSTM(4, forget_bias=1.0), partial(oracle.lstm, forget_bias=1.0)),
    "LSTM-no-bias": Case(lambda: cells.LSTM(4, cells.Gate(b=None), cells.Gate(b=None)), oracle.lstm),
    "LSTM-clipped": Case(lambda: cells.LSTM(4, cell_clip=0.3), partial(oracle.lstm, cell_clip=0.3)),
    "LSTM-projected": Case(
        lambda: cells.LSTM(4, peepholes=True, num_proj=2, proj_clip=0.2), partial(oracle.lstm, proj_clip=0.2)
    ),
    "LSTM-coupled": Case(lambda: cells.LSTM(4, peepholes=True, coupled=True), partial(oracle.lstm, coupled=True)),
    "LSTM-layer-norm": Case(
        lambda: cells.LSTM(4, peepholes=True, layer_norm=True, forget_bias=1.0, epsilon=1e-3),
        partial(oracle.layer_norm_lstm, forget_bias=1.0, epsilon=1e-3),
    ),
    "LSTM-weight-norm": Case(lambda: cells.LSTM(4, weight_norm=True), oracle.weight_norm_lstm),
    "GRU": Case(lambda: cells.GRU(4), oracle.gru),
    "GRU-two-biases": Case(lambda: cells.GRU(4, b_hid=init.Constant(0.0)), oracle.gru),
    "GRU-reset-before": Case(lambda: cells.GRU(4, reset_after=False), partial(oracle.gru, reset_after=False)),
    "UGRNN": Case(lambda: cells.UGRNN(4), oracle.ugrnn),
    "MinGRU": Case(lambda: cells.MinGRU(4), oracle.min_gru),
    "MinLSTM": Case(lambda: cells.MinLSTM(4), oracle.min_lstm),
    "SRU": Case(lambda: cells.SRU(4), oracle.sru),
    "SLSTM": Case(lambda: cells.SLSTM(4), oracle.slstm, positive=("norm",)),
    "MLSTM": Case(lambda: cells.MLSTM(4, num_heads=2), partial(late.mlstm, heads=2)),
    "GatedDeltaNet": Case(
        lambda: cells.GatedDeltaNet(6, 2, num_keys=4), partial(late.gated_delta_net, heads=2, keys=4)
    ),
    "RWKV7": Case(lambda: cells.RWKV7(num_heads=2, rank=2), partial(late.rwkv7, heads=2), (4,)),
    "LRU": Case(lambda: cells.LRU(2), late.lru),
    "LRU-projected": Case(lambda: cells.LRU(2, num_outputs=1), late.lru),
    "RGLRU": Case(lambda: cells.RGLRU(), oracle.rglru),
    "S6": Case(lambda: cells.S6(2, rank=2), oracle.s6),
    "Mamba": Case(lambda: cells.Mamba(2, expand=2, width=3), oracle.mamba),
    "ConvLSTM1D": Case(lambda: cells.ConvLSTM1D(2, 3), oracle.conv_lstm, (2, 4)),
    "ConvLSTM2D": Case(lambda: cells.ConvLSTM2D(2, (3, 1)), oracle.conv_lstm, (2, 3, 2)),
    "ConvLSTM3D": Case(lambda: cells.ConvLSTM3D(1, (3, 1, 3)), oracle.conv_lstm, (1, 2, 2, 2)),
    "NAS": Case(lambda: cells.NAS(2), tf.nas),
    "NAS-projected": Case(lambda: cells.NAS(2, b=init.Constant(0.0), num_proj=1), tf.nas),
    "IntersectionRNN": Case(lambda: cells.IntersectionRNN(3), tf.intersection),
    "IntersectionRNN-projected": Case(
        lambda: cells.IntersectionRNN(2, W_in_proj=init.GlorotUniform()), tf.intersection
    ),
    "PhasedLSTM": Case(
        lambda: Timed(cells.PhasedLSTM(3, peepholes=True)), tf.phased_lstm, positive=("period", "ratio_on")
    ),
    "TimeFreqLSTM": Case(
        lambda: cells.TimeFreqLSTM(2, 2, 2, peepholes=True, cell_clip=0.5),
        partial(tf.time_freq_lstm, size=2, skip=2, cell_clip=0.5),
        (5,),
    ),
    "GridLSTM": Case(
        lambda: cells.GridLSTM(1, 2, 1, peepholes=True, cell_clip=0.5),
        partial(tf.grid_lstm, size=2, skip=1, cell_clip=0.5),
    ),
    "BidirectionalGridLSTM": Case(
        lambda: cells.BidirectionalGridLSTM(1, 2, 1, backward_offset=1, share_weights=True, coupled=True),
        partial(tf.bidirectional_grid_lstm, size=2, skip=1, offset=1, share=True, coupled=True),
    ),
    "GLSTM": Case(lambda: cells.GLSTM(4, 2), partial(tf.glstm, groups=2), (2,)),
    "GLSTM-projected": Case(lambda: cells.GLSTM(4, 2, num_proj=2), partial(tf.glstm, groups=2), (2,)),
    "IndyLSTM": Case(lambda: cells.IndyLSTM(4), tf.indy_lstm),
    "IndyGRU": Case(lambda: cells.IndyGRU(4), tf.indy_gru),
    "AttentionCellWrapper": Case(
        lambda: cells.AttentionCellWrapper(cells.GRU(2), 2, size=1, hidden_size=3, input_size=2),
        partial(tf.attention, step=oracle.gru, parts=["hid"]),
    ),
    "AttentionCellWrapper-LSTM": Case(
        lambda: cells.AttentionCellWrapper(cells.LSTM(2), 2),
        partial(tf.attention, step=oracle.lstm, parts=["cell", "hid"]),
    ),
    "HighwayWrapper": Case(
        lambda: cells.HighwayWrapper(cells.GRU(2), coupled=False),
        lambda P, x, s: tf.highway(P, x, *oracle.gru(P, x, s)),
        (2,),
    ),
    "InputProjectionWrapper": Case(
        lambda: cells.InputProjectionWrapper(cells.GRU(2), 1, nonlinearity=np.tanh),
        lambda P, x, s: oracle.gru(P, np.tanh(x @ P["W"] + P["b"]), s),
    ),
    "OutputProjectionWrapper": Case(lambda: cells.OutputProjectionWrapper(cells.GRU(2), 1), projected_gru),
}

BATCH, LENGTH = 3, 5
HOLES = np.array([[1, 1, 0, 1, 1], [0, 0, 1, 1, 0], [0, 0, 0, 0, 0]])
"""A hole in the middle, padding on both sides, nothing at all."""


class Problem:
    """A cell with random parameters, an input and an initial state; as symbols, and as arrays for the oracle."""

    def __init__(self, case: Case, dtype: str = "float64") -> None:
        self.case = case
        self.cell = case.make().build(case.features)
        randomize(self.cell.get_params())
        for param in self.cell.get_params():
            if param.name in case.positive:
                param.set_value(np.abs(param.get_value()) + 0.3)
        rng = np.random.default_rng(1)
        shapes = structure.flatten(self.cell.state_shape)
        self.x = rng.normal(size=(BATCH, LENGTH, *case.features)).astype(dtype)
        self.start = [0.5 * rng.normal(size=(BATCH, *shape)).astype(dtype) for shape in shapes]
        for i, name in enumerate(named(self.cell.state_shape)):
            if name in case.positive:
                self.start[i] = np.abs(self.start[i]) + 0.5
        self.x_symbol = sj.tensor(("B", "T", *case.features), dtype, "x")
        self.symbols = [sj.tensor(("B", *shape), dtype, f"s{i}") for i, shape in enumerate(shapes)]
        self.state = structure.unflatten(self.cell.state_shape, self.symbols)
        self.state_values = structure.unflatten(self.cell.state_shape, self.start)

    def expressions(self, mask: Any = None, **options: Any) -> list[Any]:
        """The output (batch first) and the parts of the last state."""
        x = sj.swapaxes(self.x_symbol, 0, 1)
        mask = None if mask is None else sj.constant(mask.T)
        output, state = cells.unfold(self.cell, x, self.state, mask, **options)
        return [sj.swapaxes(output, 0, 1), *structure.flatten(state)]

    def run(self, outputs: list[Any], mode: str = "reference") -> list[np.ndarray]:
        return list(sj.function([self.x_symbol, *self.symbols], outputs, mode=mode)(self.x, *self.start))

    @property
    def point(self) -> dict[str, np.ndarray]:
        """All that the numbers depend on, by name."""
        parts = dict(zip((f"state {name}" for name in named(self.cell.state_shape)), self.start, strict=True))
        return {**values(self.cell.get_params()), "x": self.x, **parts}

    def by_oracle(self, point: dict[str, np.ndarray], **options: Any) -> list[np.ndarray]:
        state = {name: point[f"state {name}"] for name in named(self.cell.state_shape)}
        output, final = oracle.unfolded(self.case.step, point, point["x"], state, **options)
        return [output, *final.values()]


@pytest.fixture(params=CASES)
def problem(request: pytest.FixtureRequest) -> Problem:
    return Problem(CASES[request.param])


@pytest.mark.quick(16)
def test_values_and_gradients(problem: Problem, rng: np.random.Generator) -> None:
    """Forward, with a mask that has holes, backwards with it, and the gradients of that."""
    plain = problem.expressions()
    masked = problem.expressions(HOLES)
    both = problem.expressions(HOLES, backwards=True, precompute=False)
    weights = [rng.normal(size=y.shape) for y in problem.by_oracle(problem.point)]
    params = problem.cell.get_params()
    wrt = [*params, problem.x_symbol, *problem.symbols]
    slopes = sj.grad(weighted(plain, weights), wrt, disconnected="ignore")
    masked_slopes = sj.grad(weighted(both, weights), wrt, disconnected="ignore")
    found = problem.run([*plain, *masked, *both, *slopes, *masked_slopes])
    n, k = len(plain), len(wrt)
    point = problem.point
    options: list[dict[str, Any]] = [{}, {"mask": HOLES}, {"mask": HOLES, "backwards": True}]
    for i, option in enumerate(options):
        for got, expected in zip(found[i * n :], problem.by_oracle(point, **option), strict=False):
            close(got, expected)
    for first, option in ((3 * n, options[0]), (3 * n + k, options[2])):
        gradients = dict(zip(point, found[first : first + k], strict=True))
        check_slope(lambda p, o=option: problem.by_oracle(p, **o), point, weights, gradients)


def test_one_step_a_call(problem: Problem) -> None:
    step = cells.step_function(problem.cell, mode="reference")
    expected, final = problem.by_oracle(problem.point)[:2], problem.by_oracle(problem.point)[1:]
    state = problem.state_values
    for t in range(LENGTH):
        output, state = step(problem.x[:, t], state)
        close(output, expected[0][:, t])
    for got, wanted in zip(structure.flatten(state), final, strict=True):
        close(got, wanted)


def test_shapes_and_start(problem: Problem) -> None:
    cell = problem.cell
    step = cells.step_function(cell, mode="reference")
    state = step.initial_state(batch=2)
    assert [leaf.shape for leaf in structure.flatten(state)] == [
        (2, *shape) for shape in structure.flatten(cell.state_shape)
    ]
    output, _ = step(np.ones((2, *cell.input_shape)), state)
    assert output.shape == (2, *cell.output_shape)


def test_output_of_masked_steps_is_zero_on_demand(problem: Problem) -> None:
    found = problem.run(problem.expressions(HOLES, zero_output_for_mask=True))
    for got, expected in zip(found, problem.by_oracle(problem.point, mask=HOLES, zero=True), strict=True):
        close(got, expected)


@pytest.mark.quick(6)
@pytest.mark.parametrize("name", CASES)
def test_generated_code_in_float32(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sj.config, "floatX", "float32")
    problem = Problem(CASES[name], "float32")
    outputs = problem.expressions(HOLES, backwards=True)
    gradient = sj.grad(sum(sj.sum(y * y) for y in outputs), problem.x_symbol)
    found = problem.run([*outputs, gradient], "numba" if name in ("LSTM-peepholes", "SRU") else "emulate")
    assert all(y.dtype == np.float32 for y in found)
    expected = problem.by_oracle(problem.point, mask=HOLES, backwards=True)
    for got, wanted in zip(found, expected, strict=False):
        close(got, wanted, 1e-4)
    close(found[-1], problem.run([gradient])[0], 1e-4)


def test_clone_has_parameters_of_its_own() -> None:
    shared = sj.shared(np.ones((3, 4)), "W")
    for cell in (cells.SimpleRNN(4, W_in_to_hid=shared), cells.ResidualWrapper(cells.SimpleRNN(3))):
        cell.build(3)
        other = cell.clone().build(3)
        mine, theirs = cell.get_params(), other.get_params()
        assert [p.name for p in mine] == [p.name for p in theirs]
        assert {p for p in mine if p in set(theirs)} <= {shared}


def test_config_makes_another_one(problem: Problem) -> None:
    """By way of JSON: the same parameters, and the same results if they have the same values."""
    config = json.loads(json.dumps(problem.case.make().get_config()))
    other = cells.Cell.from_config(config, {"Timed": Timed})
    assert other.get_config() == config
    mine, theirs = problem.cell.get_params(), other.build(problem.case.features).get_params()
    assert [(p.name, p.get_value().shape) for p in mine] == [(p.name, p.get_value().shape) for p in theirs]
    for a, b in zip(mine, theirs, strict=True):
        b.set_value(a.get_value())
    results = []
    for cell in (problem.cell, other):
        _, state = cells.step_function(cell, mode="reference")(problem.x[:, 0], problem.state_values)
        results.append(structure.flatten(state))
    for a, b in zip(*results, strict=True):
        close(a, b, 0)


def halved(x: Any) -> Any:
    return x / 2


def test_configs_of_arguments_of_all_kinds() -> None:
    array = np.arange(12.0, dtype="float32").reshape(3, 4)
    cell = cells.SimpleRNN(4, array, init.Uniform((0.0, 1.0)), None, halved, name="a")
    config = json.loads(json.dumps(cell.get_config()))
    other = cells.SimpleRNN.from_config(config, {"halved": halved}).build(3)
    assert other.nonlinearity is halved and other.b is None and other.name == "a"
    assert (other.W_in_to_hid.get_value() == array).all() and other.W_in_to_hid.dtype == "float32"
    leaky = cells.SimpleRNN(4, init.Glorot(init.Normal), nonlinearity=nonlinearities.LeakyRectify(0.2))
    other = cells.Cell.from_config(json.loads(json.dumps(leaky.get_config())))
    assert other.nonlinearity.leakiness == 0.2 and other.specs["W_in_to_hid"].initializer is init.Normal
    with pytest.raises(
        ValueError,
        match=r"'halved', which is not known: give the class or function with from_config\(config, {'halved': ...}\)",
    ):
        cells.Cell.from_config(config)
    with pytest.raises(TypeError, match=r"GRU.from_config got the config of <SimpleRNN 'a'>"):
        cells.GRU.from_config(config, {"halved": halved})
    with pytest.raises(
        TypeError, match=r"W_in_to_hid of <SimpleRNN> is a SharedVariable, which a config cannot contain"
    ):
        cells.SimpleRNN(4, sj.shared(array)).get_config()
    with pytest.raises(TypeError, match="function without a name"):
        cells.SimpleRNN(4, nonlinearity=lambda x: x).get_config()
    with pytest.raises(ValueError, match="several classes of cells are called 'Twice'"):
        twice = [type("Twice", (cells.GRU,), {}) for _ in range(2)]
        cells.Cell.from_config(twice[0](4).get_config())


@pytest.mark.parametrize("make", [cells.LSTM, cells.GRU, cells.SimpleRNN, cells.MLSTM])
def test_numbers_of_units_may_be_integers_of_numpy(make: Callable[[int], cells.Cell]) -> None:
    four, three = make(np.int64(4)).build(np.int32(3)), make(4).build(3)
    assert four.output_shape == three.output_shape and type(four.state_shape) is type(three.state_shape)
    layer = layers.RNNLayer((None, 5, 3), cells.StackedCells([make(np.int64(4)), make(np.int64(2))]))
    assert layer.output_shape == (None, 5, 2)
    assert layers.GRULayer((None, 5, 3), np.int64(4), learn_init=True).output_shape == (None, 5, 4)
    assert layers.CudnnLSTMLayer((np.int64(2), 5, 3), np.int64(4), np.int64(2)).output_shape == (2, 5, 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cells.LSTM(4, cell_clip=-1), "cell_clip of LSTM must be a number that is at least 0, got -1"),
        (lambda: cells.LSTM(4, num_proj=2, proj_clip=np.nan), "proj_clip of LSTM must be"),
        (lambda: cells.GRU(4, grad_clipping=-0.5), "grad_clipping of GRU must be"),
        (lambda: cells.GridLSTM(4, 2, 1, cell_clip=-1), "cell_clip of GridLSTM must be"),
    ],
)
def test_bounds_are_not_negative(make: Callable[[], cells.Cell], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cells.LSTM(4, W_proj=init.Normal()), "W_proj of LSTM has no effect without num_proj"),
        (lambda: cells.LSTM(4, W_proj=np.ones((4, 2))), "W_proj of LSTM has no effect without num_proj"),
        (lambda: cells.NAS(4, W_proj=np.ones((4, 2))), "W_proj of NAS has no effect without num_proj"),
        (lambda: cells.GLSTM(4, 2, W_proj=np.ones((4, 2))), "W_proj of GLSTM has no effect without num_proj"),
        (lambda: cells.LSTM(4, epsilon=0.1), "epsilon of LSTM has no effect without layer_norm=True"),
        (lambda: cells.LSTM(4, cells.Gate(b=None), coupled=True), "ingate of LSTM has no effect with coupled=True"),
    ],
)
def test_arguments_without_effect(make: Callable[[], cells.Cell], message: str) -> None:
    """They are errors: they were ignored without a word."""
    with pytest.raises(ValueError, match=message):
        make()


def test_a_cell_takes_one_shape() -> None:
    cell = cells.GRU(4).build(3)
    assert cell.build((3,)) is cell
    with pytest.raises(ValueError, match=r"built for inputs of shape \(3,\), so it cannot take \(5,\)"):
        cell.build(5)


class Mixed(cells.GatedCell):
    """A user's cell: it gives its gates to the base, and leaves `make_params` to it."""

    def __init__(self, num_units: int, recurrent: bool = True, biased: bool = True) -> None:
        b = init.Constant(1.0) if biased else None
        gates = {"gate": cells.Gate(b=b), "new": cells.Gate(b=None, nonlinearity=None)}
        super().__init__(num_units, gates, recurrent, name="mixed")

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        gate, new = self.split_activated(z + self.project_hidden(state) if self.recurrent else z)
        h = gate * state + (1 - gate) * new
        return h, h


def test_a_cell_gives_its_gates_to_the_base() -> None:
    names = ["W_in_to_gate", "W_hid_to_gate", "b_gate", "W_in_to_new", "W_hid_to_new"]
    assert [p.name for p in Mixed(3).build(2).get_params()] == [f"mixed.{name}" for name in names]
    plain = Mixed(3, recurrent=False, biased=False).build(2)
    assert plain.b_gate is None and [p.name for p in plain.get_params()] == ["mixed.W_in_to_gate", "mixed.W_in_to_new"]
    step = cells.step_function(Mixed(3, recurrent=False).build(2), mode="reference")
    x, h = np.ones((2, 2)), np.full((2, 3), 0.5)
    output, _ = step(x, h)
    W_gate, b, W_new = (p.get_value() for p in step.cell.get_params())
    gate = 1 / (1 + np.exp(-(x @ W_gate + b)))
    np.testing.assert_allclose(output, gate * h + (1 - gate) * (x @ W_new))
    with pytest.raises(NotImplementedError, match=r"GatedCell does not define make_params\(input_shape\)"):
        cells.GatedCell(3).build(2)


def test_weights_that_are_left_out_are_errors_unless_they_are_optional() -> None:
    assert cells.SimpleRNN(3, b=None).build(2).b is None
    with pytest.raises(TypeError, match="cannot initialize parameter W_hid_to_hid: the value is a NoneType"):
        cells.SimpleRNN(3, W_hid_to_hid=None).build(2)
    assert [p.name for p in cells.IndRNN(3).build(2).get_params(regularizable=True)] == ["W"]


def test_errors() -> None:
    with pytest.raises(ValueError, match="no parameters yet"):
        cells.unfold(cells.GRU(4), sj.tensor3())
    with pytest.raises(ValueError, match="no parameters yet"):
        cells.step_function(cells.GRU(4))
    with pytest.raises(ValueError, match="proj_clip"):
        cells.LSTM(4, proj_clip=1.0)
    with pytest.raises(ValueError, match="reset_after"):
        cells.GRU(4, reset_after=False, b_hid=init.Constant(0.0))
    with pytest.raises(TypeError, match="use LayerNormLSTM"):
        cells.LayerNormBasicLSTM(4, num_proj=2)
    with pytest.raises(ValueError, match="dropout is the probability"):
        cells.LayerNormBasicLSTM(4, dropout=1.5)
    with pytest.raises(ValueError, match="needs 4 features, got 3"):
        cells.IntersectionRNN(4).build(3)
    with pytest.raises(ValueError, match=r"takes a pair of inputs: the time, .* got inputs of shape \(3,\)"):
        cells.PhasedLSTM(4).build(3)
    with pytest.raises(TypeError, match="does not take num_proj"):
        cells.PhasedLSTM(4, num_proj=2)
    with pytest.raises(ValueError, match="feature_size=0"):
        cells.TimeFreqLSTM(4, 0)
    with pytest.raises(ValueError, match="windows of 5 features, but the input has 3"):
        cells.GridLSTM(4, 5).build(3)
    with pytest.raises(ValueError, match=r"num_groups=2 of .* does not divide .* 3 inputs"):
        cells.GLSTM(4, 2).build(3)
    with pytest.raises(ValueError, match="got 3 heads for 4 units"):
        cells.MLSTM(4, 3)
    with pytest.raises(ValueError, match="radii"):
        cells.LRU(4, radii=(0.9, 0.8))
    with pytest.raises(ValueError, match="length of AttentionCellWrapper must be 1 or more"):
        cells.AttentionCellWrapper(cells.GRU(4), 0)
    with pytest.raises(ValueError, match="odd"):
        cells.ConvLSTM1D(4, 2)
    with pytest.raises(ValueError, match=r"with 1 more axes, got \('batch', 3\)"):
        cells.ConvLSTM1D(4, 3).build(3)
    with pytest.raises(ValueError, match="fixed sizes"):
        cells.GRU(4).build((None,))
    with pytest.raises(NotImplementedError, match="neither step"):
        cells.Cell().build(3).step(sj.matrix(), None)


def test_cells_that_are_options_of_others() -> None:
    basic, plain = cells.LayerNormBasicLSTM(4).build(3), cells.LSTM(4, layer_norm=True, forget_bias=1.0).build(3)
    for a, b in zip(basic.get_params(), plain.get_params(), strict=True):
        assert a.name == b.name
        a.set_value(b.get_value())
    state = cells.LSTMState(np.ones((1, 4)), np.ones((1, 4)))
    found = [cells.step_function(cell, mode="reference")(np.ones((1, 3)), state)[0] for cell in (basic, plain)]
    close(*found, 0)
    assert cells.LayerNormLSTM(4).layer_norm and cells.LayerNormLSTM(4, peepholes=True, num_proj=2).build(3).num_proj
    assert cells.WeightNormLSTM(4).weight_norm and cells.CoupledInputForgetGateLSTM(4).coupled


CLIPPED: dict[str, tuple[Callable[..., cells.Cell], str]] = {
    "NAS": (partial(cells.NAS, 2, b=init.Constant(0.0)), "b"),
    "IntersectionRNN": (partial(cells.IntersectionRNN, 3), "b_hid"),
    "TimeFreqLSTM": (partial(cells.TimeFreqLSTM, 2, 3), "b"),
    "GridLSTM": (partial(cells.GridLSTM, 2, 3), "b_time"),
    "GLSTM": (partial(cells.GLSTM, 3, 3), "b"),
    "IndyLSTM": (partial(cells.IndyLSTM, 2), "b_cell"),
    "IndyGRU": (partial(cells.IndyGRU, 2), "b_hidden_update"),
    "MLSTM": (partial(cells.MLSTM, 2), "b_gates"),
}


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", CLIPPED)
def test_gradients_are_cut_at_the_gates(name: str) -> None:
    """A bias gets at most the bound from each step and sequence; with a large bound, what it got without one."""
    make, bias = CLIPPED[name]
    found = []
    for bound in (0, 1e9, 1e-3):
        cell = make(grad_clipping=bound).build(3)
        randomize(cell.get_params())
        x = sj.tensor((LENGTH, BATCH, 3), "float64", "x")
        output, _ = cells.unfold(cell, x)
        slope = sj.grad(100 * sj.sum(output), getattr(cell, bias))
        values = np.random.default_rng(1).normal(size=(LENGTH, BATCH, 3))
        found.append(sj.function([x], [output, slope], mode="reference")(values))
    (y, free), (_, loose), (same, cut) = found
    close(same, y, 0)
    close(loose, free, 1e-12)
    assert np.abs(free).max() > 1 and np.abs(cut).max() <= 1e-3 * LENGTH * BATCH + 1e-12


def test_embeddings_inside_and_outside() -> None:
    """A cell that reads integers, against a layer of vectors before the same cell."""
    words = layers.InputLayer((None, None, 1), sj.ltensor3())
    inside = layers.RNNLayer(words, cells.EmbeddingWrapper(cells.GRU(2), 5, 3))
    vectors = layers.EmbeddingLayer(layers.ReshapeLayer(words, ([0], [1])), 5, 3, inside.cell.W)
    outside = layers.RNNLayer(vectors, inside.cell.cell)
    randomize(inside.cell.get_params())
    given = np.random.default_rng(1).integers(0, 5, (BATCH, LENGTH, 1))
    close(*sj.function([words.input_var], layers.get_output([inside, outside]), mode="reference")(given))
    with pytest.raises(TypeError, match=r"takes integers, got float64"):
        layers.get_output(
            layers.RNNLayer(layers.InputLayer((None, None, 1)), cells.EmbeddingWrapper(cells.GRU(2), 5, 3))
        )
    with pytest.raises(
        ValueError, match=r"takes an input of shape \(batch, 1\), with one integer in each step, got \(2,\)"
    ):
        cells.EmbeddingWrapper(cells.GRU(2), 5, 3).build(2)


def test_attention_sees_states_of_any_shape() -> None:
    cell = cells.AttentionCellWrapper(cells.MLSTM(4, num_heads=2), 2).build(3)
    assert cell.W_state.get_value().shape == (2 * 2 * 2 + 2 * 2 + 2, 4)
    step = cells.step_function(cell, mode="reference")
    assert step(np.ones((2, 3)), step.initial_state(2))[0].shape == (2, 4)


def test_dropout_of_what_a_memory_takes_in() -> None:
    """The candidate is dropped: in a first step all such units have the same memory. With `deterministic` none is."""
    cell = cells.LayerNormBasicLSTM(200, dropout=0.25, seed=1).build(3)
    state = cells.LSTMState(np.zeros((1, 200)), np.zeros((1, 200)))
    for deterministic in (True, False):
        step = cells.step_function(cell, mode="reference", deterministic=deterministic)
        memory = step(np.ones((1, 3)), state)[1].cell[0]
        alike = np.unique(memory.round(12), return_counts=True)[1].max() / 200
        assert alike < 0.02 if deterministic else 0.15 < alike < 0.35


class Broken(cells.Cell):
    state_shape = (4,)

    def step(self, x: Any, state: Any) -> tuple[Any, Any]:
        return x, (state, state)


def test_a_step_that_returns_another_structure() -> None:
    with pytest.raises(sj.ShapeError, match="state that a step returns does not have the structure"):
        cells.unfold(Broken().build(3), sj.tensor((None, None, 3)))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtypes", [("float64", "float32"), ("float32", "float64"), ("float32", "float32")], ids=str)
def test_inputs_and_parameters_of_other_dtypes(
    name: str, dtypes: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results have the wider dtype, whatever `floatX` is when they are computed."""
    monkeypatch.setattr(sj.config, "floatX", dtypes[0])
    case = CASES[name]
    cell = case.make().build(case.features)
    monkeypatch.undo()
    outputs, state = cells.unfold(cell, sj.tensor((None, None, *case.features), dtypes[1]), deterministic=True)
    assert {leaf.dtype for leaf in structure.flatten((outputs, state))} == {np.result_type(*dtypes)}


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        (cells.LSTM(4, cells.Gate(W_cell=init.Constant(0.5))), "W_cell of Gate has no effect in the gate 'ingate'"),
        (cells.LSTM(4, cell=peep, peepholes=True), "W_cell of Gate has no effect in the gate 'cell'"),
        (cells.GRU(4, peep), "W_cell of Gate has no effect in the gate 'resetgate'"),
        (cells.LSTM(4, cells.Gate(b=init.Constant(1.0)), layer_norm=True), "b of Gate has no effect in the gate"),
        (cells.MinGRU(4, cells.Gate(W_hid=init.Constant(1.0))), "which does not read the last output"),
    ],
)
def test_parameters_of_gates_that_have_no_effect_are_errors(cell: cells.Cell, found: str) -> None:
    with pytest.raises(ValueError, match=found):
        cell.build(3)
