"""Every cell against NumPy, step by step: values, gradients, masks, both directions, one step a call."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import cells, init
from lasagne_like.cells import structure
from tests.lasagne_like import numpy_cells as oracle
from tests.lasagne_like.recurrent_support import check_slope, close, named, randomize, values, weighted

peep = cells.Gate(W_cell=init.Normal(0.5))
blind = cells.Gate(W_cell=None)


class Case(NamedTuple):
    make: Callable[[], cells.Cell]
    step: Callable[..., Any]
    features: tuple[int, ...] = (3,)


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
    "SLSTM": Case(lambda: cells.SLSTM(4), oracle.slstm),
    "RGLRU": Case(lambda: cells.RGLRU(), oracle.rglru),
    "S6": Case(lambda: cells.S6(2, rank=2), oracle.s6),
    "Mamba": Case(lambda: cells.Mamba(2, expand=2, width=3), oracle.mamba),
    "ConvLSTM1D": Case(lambda: cells.ConvLSTM1D(2, 3), oracle.conv_lstm, (2, 4)),
    "ConvLSTM2D": Case(lambda: cells.ConvLSTM2D(2, (3, 1)), oracle.conv_lstm, (2, 3, 2)),
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
        rng = np.random.default_rng(1)
        shapes = structure.flatten(self.cell.state_shape)
        self.x = rng.normal(size=(BATCH, LENGTH, *case.features)).astype(dtype)
        self.start = [0.5 * rng.normal(size=(BATCH, *shape)).astype(dtype) for shape in shapes]
        if isinstance(self.cell, cells.SLSTM):  # a normalizer is positive
            self.start[1] = np.abs(self.start[1]) + 0.5
        self.x_symbol = sj.tensor(("B", "T", *case.features), dtype, "x")
        self.symbols = [sj.tensor(("B", *shape), dtype, f"s{i}") for i, shape in enumerate(shapes)]
        self.state = structure.unflatten(self.cell.state_shape, self.symbols)

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


def test_values_and_gradients(problem: Problem) -> None:
    """Forward, with a mask that has holes, backwards with it, and the gradients of that."""
    plain = problem.expressions()
    masked = problem.expressions(HOLES)
    both = problem.expressions(HOLES, backwards=True, precompute=False)
    rng = np.random.default_rng(2)
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
    state = structure.unflatten(problem.cell.state_shape, problem.start)
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


def test_a_cell_takes_one_shape() -> None:
    cell = cells.GRU(4).build(3)
    assert cell.build((3,)) is cell
    with pytest.raises(ValueError, match=r"built for inputs of shape \(3,\), it cannot take \(5,\)"):
        cell.build(5)


def test_errors() -> None:
    with pytest.raises(ValueError, match="no parameters yet"):
        cells.unfold(cells.GRU(4), sj.tensor3())
    with pytest.raises(ValueError, match="no parameters yet"):
        cells.step_function(cells.GRU(4))
    with pytest.raises(ValueError, match="proj_clip"):
        cells.LSTM(4, proj_clip=1.0)
    with pytest.raises(ValueError, match="reset_after"):
        cells.GRU(4, reset_after=False, b_hid=init.Constant(0.0))
    with pytest.raises(ValueError, match="odd"):
        cells.ConvLSTM1D(4, 2)
    with pytest.raises(ValueError, match=r"takes inputs of shape \(batch, channels, 1 sizes\), got .*\(3,\)"):
        cells.ConvLSTM1D(4, 3).build(3)
    with pytest.raises(ValueError, match="fixed sizes"):
        cells.GRU(4).build((None,))
    with pytest.raises(NotImplementedError, match="neither step"):
        cells.Cell().build(3).step(sj.matrix(), None)


class Broken(cells.Cell):
    state_shape = (4,)

    def step(self, x: Any, state: Any) -> tuple[Any, Any]:
        return x, (state, state)


def test_a_step_that_returns_another_structure() -> None:
    with pytest.raises(sj.ShapeError, match="state that a step returns has another structure"):
        cells.unfold(Broken().build(3), sj.tensor((None, None, 3)))
