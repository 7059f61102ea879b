"""Weights of other libraries in layers of ours give what the libraries' equations give, and come back as they were."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import cells, init
from lasagne_like.importers import (
    build_layers,
    get_cudnn_buffer,
    keras,
    onednn,
    onnx,
    read_layers,
    set_cudnn_buffer,
    tensorflow,
    tf_cudnn,
    torch,
)
from lasagne_like.layers import (
    Bidirectional,
    CudnnGRULayer,
    CudnnLSTMLayer,
    GRULayer,
    InputLayer,
    LSTMLayer,
    RecurrentLayer,
    RNNLayer,
    get_all_layers,
    get_output,
)
from lasagne_like.nonlinearities import rectify
from tests.lasagne_like.importers import equations as eq

INPUTS, UNITS, PROJECTED = 3, 4, 2
GATES = {"lstm": 4, "gru": 3, "rnn": 1}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 5, INPUTS))


def some(*shape: int) -> np.ndarray:
    return RNG.normal(0, 0.6, shape)


def output(layer: Any, x: np.ndarray = X) -> np.ndarray:
    (l_in,) = (one for one in get_all_layers(layer) if isinstance(one, InputLayer))
    return sj.function([l_in.input_var], get_output(layer), mode="reference")(x)


def stacked(one: Callable[[int, int, np.ndarray], np.ndarray], depth: int, ways: int) -> np.ndarray:
    """A stack of `one(layer, way, x)`."""
    x = X
    for k in range(depth):
        x = np.concatenate([one(k, way, x) for way in range(ways)], axis=-1)
    return x


def same(found: Any, given: Any) -> None:
    """Equal to the last bit: dicts and lists of arrays."""
    if isinstance(given, dict):
        assert found.keys() == given.keys()
        for name in given:
            same(found[name], given[name])
    elif isinstance(given, list):
        assert len(found) == len(given)
        for a, b in zip(found, given, strict=True):
            same(a, b)
    else:
        assert found.shape == given.shape and (found == given).all()


# ---- PyTorch ---------------------------------------------------------------------------------------------------------


def torch_state(kind: str, depth: int, ways: int, projected: bool = False, bias: bool = True) -> dict[str, np.ndarray]:
    rows, width = GATES[kind] * UNITS, PROJECTED if projected else UNITS
    state = {}
    for k in range(depth):
        for way in ("", "_reverse")[:ways]:
            end = f"l{k}{way}"
            state[f"weight_ih_{end}"] = some(rows, INPUTS if k == 0 else ways * width)
            state[f"weight_hh_{end}"] = some(rows, width)
            if bias:
                state |= {f"bias_ih_{end}": some(rows), f"bias_hh_{end}": some(rows)}
            if projected:
                state[f"weight_hr_{end}"] = some(PROJECTED, UNITS)
    return state


TORCH = [("lstm", 2, 2, False), ("lstm", 2, 2, True), ("lstm", 1, 1, False), ("gru", 2, 2, False), ("rnn", 1, 2, False)]


@pytest.mark.parametrize(("kind", "depth", "ways", "projected"), TORCH)
@pytest.mark.parametrize("bias", [True, False])
def test_torch(kind: str, depth: int, ways: int, projected: bool, bias: bool) -> None:
    state = torch_state(kind, depth, ways, projected, bias)
    layer = torch.from_state_dict(state)

    def one(k: int, way: int, x: np.ndarray) -> np.ndarray:
        return eq.torch_layer(kind, state, f"l{k}" + "_reverse" * way, x, way == 1)

    np.testing.assert_allclose(output(layer), stacked(one, depth, ways), rtol=1e-12, atol=1e-13)
    back = torch.to_state_dict(layer, "rnn.")
    same(torch.to_state_dict(torch.from_state_dict(back, prefix="rnn."), "rnn."), back)
    for name, value in state.items():
        if "weight" in name:
            same(back[f"rnn.{name}"], value)
    for name in state if bias and kind == "gru" else ():  # the two biases of the candidate are not added up
        if "bias" in name:
            same(back[f"rnn.{name}"][2 * UNITS :], state[name][2 * UNITS :])


def test_torch_cells_and_prefixes() -> None:
    state = torch_state("gru", 1, 1)
    cell = {f"decoder.{name.removesuffix('_l0')}": value for name, value in state.items()}
    found = torch.from_state_dict({"head.weight": some(2, 2), **cell}, prefix="decoder.")
    same(output(found), output(torch.from_state_dict(state)))


# ---- Keras -----------------------------------------------------------------------------------------------------------


def keras_weights(kind: str, inputs: int, bias: bool = True, reset_after: bool = True) -> list[np.ndarray]:
    columns = GATES[kind] * UNITS
    shape = (2, columns) if kind == "gru" and reset_after else (columns,)
    return [some(inputs, columns), some(UNITS, columns), *([some(*shape)] if bias else [])]


@pytest.mark.parametrize(("kind", "reset_after"), [("lstm", True), ("gru", True), ("gru", False), ("rnn", True)])
@pytest.mark.parametrize("ways", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_keras(kind: str, reset_after: bool, ways: int, bias: bool) -> None:
    directions = [
        [keras_weights(kind, inputs, bias, reset_after) for _ in range(ways)] for inputs in (INPUTS, ways * UNITS)
    ]
    weights = [[w for one in level for w in one] for level in directions]
    given = None if bias else reset_after  # a bias says it
    layer = keras.from_weights(weights, bidirectional=ways == 2, reset_after=given)

    def one(k: int, way: int, x: np.ndarray) -> np.ndarray:
        return eq.keras_layer(kind, directions[k][way], x, way == 1, reset_after)

    np.testing.assert_allclose(output(layer), stacked(one, 2, ways), rtol=1e-12, atol=1e-13)
    back = keras.to_weights(layer)
    same(keras.to_weights(keras.from_weights(back, bidirectional=ways == 2)), back)
    if bias and not (kind == "gru" and reset_after):
        same(back, weights)
    if ways == 1:
        same(output(keras.from_weights(weights[0], reset_after=given)), output(layer.input_layers[0]))


# ---- TensorFlow's cells ----------------------------------------------------------------------------------------------


def lstm_variables(peepholes: bool, projected: bool) -> dict[str, np.ndarray]:
    width = PROJECTED if projected else UNITS
    found = {"kernel": some(INPUTS + width, 4 * UNITS), "bias": some(4 * UNITS)}
    found |= {f"w_{gate}_diag": some(UNITS) for gate in "ifo"} if peepholes else {}
    return found | ({"projection/kernel": some(UNITS, PROJECTED)} if projected else {})


def gru_variables() -> dict[str, np.ndarray]:
    rows = INPUTS + UNITS
    found = {"gates/kernel": some(rows, 2 * UNITS), "gates/bias": some(2 * UNITS)}
    return found | {"candidate/kernel": some(rows, UNITS), "candidate/bias": some(UNITS)}


def cudnn_gru_variables() -> dict[str, np.ndarray]:
    found = {name: value for name, value in gru_variables().items() if name.startswith("gates")}
    for way, rows in (("input", INPUTS), ("hidden", UNITS)):
        place = f"candidate/{way}_projection"
        found |= {f"{place}/kernel": some(rows, UNITS), f"{place}/bias": some(UNITS)}
    return found


@pytest.mark.parametrize(
    "variables",
    [lstm_variables(False, False), lstm_variables(True, True), gru_variables(), cudnn_gru_variables()],
    ids=["lstm", "all", "gru", "cudnn-gru"],
)
@pytest.mark.parametrize("forget_bias", [0.0, 1.0])
def test_tensorflow(variables: dict[str, np.ndarray], forget_bias: float) -> None:
    scoped = {f"rnn/cell/{name}:0": value for name, value in variables.items()} | {"other/kernel": some(1, 1)}
    layer = tensorflow.from_variables(scoped, scope="rnn/cell", forget_bias=forget_bias)
    expected = eq.tensorflow_cell(variables, X, forget_bias)
    np.testing.assert_allclose(output(layer), expected, rtol=1e-12, atol=1e-13)
    back = tensorflow.to_variables(layer)
    if not forget_bias:
        same(back, variables)
    again = tensorflow.from_variables(back, forget_bias=0.0)
    np.testing.assert_allclose(output(again), output(layer), rtol=1e-12, atol=1e-13)


# ---- ONNX ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "lbr"), [("lstm", False), ("gru", False), ("gru", True), ("rnn", False)])
@pytest.mark.parametrize(("ways", "extras"), [(1, False), (2, True)])
def test_onnx(kind: str, lbr: bool, ways: int, extras: bool) -> None:
    rows = GATES[kind] * UNITS
    operators = []
    for inputs in (INPUTS, ways * UNITS):
        own = {"W": some(ways, rows, inputs), "R": some(ways, rows, UNITS)}
        own |= {"B": some(ways, 2 * rows)} if extras else {}
        own |= {"P": some(ways, 3 * UNITS)} if extras and kind == "lstm" else {}
        operators.append(own)
    layer = onnx.from_arrays(operators, linear_before_reset=lbr)

    def one(k: int, way: int, x: np.ndarray) -> np.ndarray:
        return eq.onnx_direction(kind, operators[k], way, x, way == 1, lbr)

    np.testing.assert_allclose(output(layer), stacked(one, 2, ways), rtol=1e-12, atol=1e-13)
    back = onnx.to_arrays(layer)
    same(onnx.to_arrays(onnx.from_arrays(back, linear_before_reset=lbr)), back)
    for own, given in zip(back, operators, strict=True):
        same({name: own[name] for name in "WRP" if name in given}, {n: v for n, v in given.items() if n != "B"})


# ---- oneDNN ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "extras"),
    [("lstm", ""), ("lstm", "bias peephole projection"), ("gru", "bias"), ("gru", "lbr"), ("rnn", "")],
)
@pytest.mark.parametrize(("depth", "ways"), [(1, 2), (2, 1), (2, 2)])
def test_onednn(kind: str, extras: str, depth: int, ways: int) -> None:
    """Two directions of several layers are two stacks that do not see each other."""
    width = PROJECTED if "projection" in extras else UNITS
    inputs = width if depth == 2 else INPUTS
    x = RNG.normal(size=(2, 5, inputs))
    lead, gates = (depth, ways), GATES[kind]
    arrays = {"weights_layer": some(*lead, inputs, gates, UNITS), "weights_iter": some(*lead, width, gates, UNITS)}
    if extras:
        arrays["bias"] = some(*lead, gates + (extras == "lbr"), UNITS)
    if "peephole" in extras:
        arrays["weights_peephole"] = some(*lead, 3, UNITS)
        arrays["weights_projection"] = some(*lead, UNITS, PROJECTED)
    layer = onednn.from_arrays(arrays)
    stacks = [x] * ways
    for k in range(depth):
        stacks = [onednn_one(kind, arrays, k, way, below) for way, below in enumerate(stacks)]
    expected = np.concatenate(stacks, axis=-1)
    np.testing.assert_allclose(output(layer, x), expected, rtol=1e-12, atol=1e-13)
    back = onednn.to_arrays(layer)
    same({name: back[name] for name in arrays}, arrays)
    same(onednn.to_arrays(onednn.from_arrays(back)), back)


def test_directions_of_onednn() -> None:
    two = {"weights_layer": some(2, 2, 3, 4, 3), "weights_iter": some(2, 2, 3, 4, 3)}
    x = RNG.normal(size=(2, 5, 3))
    side_by_side, added = (
        output(onednn.from_arrays(two, direction=f"bidirectional_{w}"), x) for w in ("concat", "sum")
    )
    np.testing.assert_allclose(added, side_by_side[..., :3] + side_by_side[..., 3:], rtol=1e-13)
    same(onednn.to_arrays(onednn.from_arrays(two, direction="bidirectional_sum"))["weights_iter"], two["weights_iter"])
    one = {name: value[:, :1] for name, value in two.items()}
    back = onednn.from_arrays(one, direction="unidirectional_right2left")
    same(output(back, x[:, ::-1])[:, ::-1], output(onednn.from_arrays(one), x))
    with pytest.raises(
        ValueError, match=r"'bidirectional_concat', 'bidirectional_sum', got 'unidirectional_left2right'"
    ):
        onednn.from_arrays(two, direction="unidirectional_left2right")
    with pytest.raises(ValueError, match="reads both directions"):
        onednn.to_arrays(CudnnLSTMLayer((None, None, 6), 3, 2, "bidirectional"))
    with pytest.raises(ValueError, match="reads both directions"):
        onednn.to_arrays(Bidirectional(cells.LSTM(3), incoming=Bidirectional(cells.LSTM(3), incoming=(None, None, 6))))
    with pytest.raises(ValueError, match="read different layers"):
        torch.to_state_dict(onednn.from_arrays(two))


def onednn_one(kind: str, arrays: Any, k: int, way: int, x: np.ndarray) -> np.ndarray:
    return eq.onednn_direction(kind, arrays, k, way, x, way == 1)


# ---- from one format to another, and from layers of ours -------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_through_all_formats(kind: str) -> None:
    first = torch.from_state_dict(torch_state(kind, 1, 1))
    second = onnx.from_arrays(onnx.to_arrays(first), linear_before_reset=True)
    third = keras.from_weights(keras.to_weights(second))
    fourth = onednn.from_arrays(onednn.to_arrays(third))
    same(output(fourth), output(first))


@pytest.mark.parametrize(
    ("make", "through"),
    [
        (lambda l_in: LSTMLayer(l_in, UNITS), lambda layer: onnx.from_arrays(onnx.to_arrays(layer))),
        (
            lambda l_in: RNNLayer(l_in, cells.LSTM(UNITS, forget_bias=1.0)),
            lambda layer: torch.from_state_dict(torch.to_state_dict(layer)),
        ),
        (
            lambda l_in: CudnnGRULayer(l_in, UNITS, 2, "bidirectional", double_bias=True, b=init.Normal(1.0)),
            lambda layer: torch.from_state_dict(torch.to_state_dict(layer)),
        ),
        (
            lambda l_in: RNNLayer(l_in, [cells.GRU(UNITS), cells.GRU(UNITS)]),
            lambda layer: keras.from_weights(keras.to_weights(layer)),
        ),
    ],
    ids=["peepholes", "forget-bias", "cudnn", "stacked"],
)
def test_layers_of_ours(make: Any, through: Any) -> None:
    layer = make(InputLayer((None, None, INPUTS)))
    np.testing.assert_allclose(output(through(layer)), output(layer), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cells.LSTM(4, layer_norm=True).build(3), "layer_norm"),
        (lambda: cells.LSTM(4, coupled=True).build(3), "coupled"),
        (lambda: cells.LSTM(4, cell_clip=1.0).build(3), "cell_clip"),
        (lambda: cells.LSTM(4), "that has been built"),
        (lambda: cells.UGRNN(4).build(3), "UGRNN"),
        (lambda: cells.GRU(4, reset_after=False).build(3), "reset before the product, which PyTorch does not have"),
        (lambda: cells.LSTM(4, peepholes=True).build(3), "peepholes, which PyTorch does not have"),
        (lambda: [cells.LSTM(4).build(3), cells.GRU(4).build(4)], "all layers must be of one kind"),
        (
            lambda: GRULayer((None, None, 3), 4, cells.Gate(W_cell=None, nonlinearity=np.tanh)),
            "nonlinearity of its resetgate",
        ),
        (lambda: Bidirectional(RecurrentLayer((None, None, 3), 4), merge="sum"), "merge of .* must be 'concat'"),
    ],
)
def test_what_a_format_has_not(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        torch.to_state_dict(make())


def two_ways(first: cells.Cell, second: cells.Cell) -> Bidirectional:
    below = InputLayer((None, None, 3))
    return Bidirectional(RNNLayer(below, first), backward=RNNLayer(below, second, backwards=True))


def test_layers_and_directions_that_differ() -> None:
    """A module of PyTorch has one number of units for all of its layers, an operator of ONNX for its directions."""
    both = two_ways(cells.LSTM(5), cells.LSTM(4))
    stack = RNNLayer(RNNLayer((None, None, 3), cells.LSTM(5)), cells.LSTM(4))
    for layer in (both, stack):
        for export in (torch.to_state_dict, tf_cudnn.to_variables):
            with pytest.raises(ValueError, match=r"all layers must have the same num_units in .*, got \[5, 4\]"):
                export(layer)
    with pytest.raises(ValueError, match=r"all directions must have the same num_units in ONNX, got \[5, 4\]"):
        onnx.to_arrays(both)
    with pytest.raises(ValueError, match=r"all directions must have the same reset_after in ONNX"):
        onnx.to_arrays(two_ways(cells.GRU(4), cells.GRU(4, reset_after=False)))
    with pytest.raises(ValueError, match=r"all layers must have the same nonlinearity in PyTorch"):
        torch.to_state_dict(two_ways(cells.SimpleRNN(4), cells.SimpleRNN(4, nonlinearity=rectify)))
    assert len(onnx.to_arrays(stack)) == 2
    assert len(keras.to_weights(both)[0]) == 6


def test_what_other_formats_have_not() -> None:
    two = torch.from_state_dict(torch_state("lstm", 2, 1))
    with pytest.raises(ValueError, match="several layers"):
        tensorflow.to_variables([two.input_layers[0], two])
    projected = torch.from_state_dict(torch_state("lstm", 1, 1, projected=True))
    for export in (keras.to_weights, onnx.to_arrays, tf_cudnn.to_variables):
        with pytest.raises(ValueError, match="a projection"):
            export(projected)
    with pytest.raises(ValueError, match="all must have the same shapes"):
        onednn.to_arrays(two)
    with pytest.raises(TypeError, match="a recurrent layer or a cell"):
        read_layers(InputLayer((None, 3)))


def test_a_stack_is_read_whole() -> None:
    two = torch.from_state_dict(torch_state("lstm", 2, 2))
    assert [[one.num_inputs for one in level] for level in read_layers(two)] == [[INPUTS] * 2, [2 * UNITS] * 2]
    assert len(read_layers([two])) == 1


@pytest.mark.parametrize("ways", [1, 2])
def test_the_final_output_of_a_stack(ways: int) -> None:
    """Only the last layer returns it: the others return all steps."""
    state = torch_state("lstm", 2, ways)
    every, last = (output(torch.from_state_dict(state, only_return_final=final)) for final in (False, True))
    ends = [every[:, -1, :UNITS], every[:, 0, UNITS:]]  # a direction that runs backwards ends with step 0
    np.testing.assert_allclose(last, np.concatenate(ends, axis=1), rtol=1e-12)
    l_pair = torch.from_state_dict(torch_state("lstm", 2, 1), return_state=True)
    assert l_pair.output_shape[0] == (None, None, UNITS)


# ---- what does not fit -----------------------------------------------------------------------------------------------


def without(name: str) -> Any:
    return lambda arrays: arrays.pop(name)


def put(name: str, *shape: int) -> Any:
    return lambda arrays: arrays.update({name: np.zeros(shape)})


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (without("weight_hh_l1"), KeyError, "there is no 'weight_hh_l1' in the state; there are 'weight_ih_l1'"),
        (without("bias_hh_l0"), KeyError, "bias_hh_l0"),
        (put("weight_ih_l1", 16, 5), ValueError, r"weight_ih_l1 has shape \(16, 5\), should be \(16, 4\)"),
        (put("bias_ih_l0", 15), ValueError, r"bias_ih_l0 has shape \(15,\), should be \(16,\)"),
        (put("weight_hh_l0", 15, 4), ValueError, r"weight_hh_l0 must have 4, 3 or 1 rows .* got shape \(15, 4\)"),
        (put("weight_hh_l0", 16, 0), ValueError, "weight_hh_l0 .* size 0"),
        (put("weight_xx_l0", 1), ValueError, "does not have these names in the state: 'weight_xx_l0'"),
        (lambda state: state.clear(), KeyError, "no 'weight_ih_l0'; there are none"),
        (
            lambda state: state.update({"bias_ih_l0": np.array(["a"] * 16)}),
            ValueError,
            "bias_ih_l0 must have real numbers, got dtype <U1",
        ),
    ],
)
def test_torch_states_that_do_not_fit(change: Any, error: Any, message: str) -> None:
    state = torch_state("lstm", 2, 1)
    change(state)
    with pytest.raises(error, match=message):
        torch.from_state_dict(state)


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (lambda: keras.from_weights([some(3, 16), some(4, 16), some(2, 16)]), r"bias of layer 0 has shape \(2, 16\)"),
        (lambda: keras.from_weights([some(3, 12), some(4, 12), some(2, 12)], reset_after=False), "reset_after=False"),
        (lambda: keras.from_weights([some(3, 16)]), "must have 2 or 3 arrays .*, got 1"),
        (lambda: keras.from_weights([some(3, 16), some(4, 15)]), r"recurrent kernel of layer 0 has shape \(4, 15\)"),
        (lambda: keras.from_weights([some(3, 4), some(4, 4)], nonlinearity="sin"), "'tanh' or 'relu'"),
        (lambda: keras.from_weights([some(3, 4), some(4, 4)], InputLayer((None, None, 7))), "the 3 features"),
        (lambda: tensorflow.from_variables({"kernel": some(7, 15), "bias": some(15)}), r"kernel has shape \(7, 15\)"),
        (
            lambda: tensorflow.from_variables({"kernel": some(4, 16), "bias": some(16)}),
            "more rows than the last output has features, 4",
        ),
        (lambda: onnx.from_arrays({"W": some(1, 16, 3), "R": some(1, 16, 5)}), r"R has shape \(1, 16, 5\)"),
        (lambda: onnx.from_arrays({"W": some(2, 16, 3), "R": some(1, 16, 4)}), r"W has shape \(2, 16, 3\)"),
        (
            lambda: onednn.from_arrays({"weights_layer": some(2, 1, 3, 4, 4), "weights_iter": some(2, 1, 4, 4, 4)}),
            "must have 4 inputs",
        ),
        (
            lambda: onnx.from_arrays([{"W": some(1, 4, 3), "R": some(1, 4, 4), "X": some(1)}]),
            "does not have these names in the arrays of layer 0: 'X'",
        ),
    ],
)
def test_arrays_that_do_not_fit(load: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load()


@pytest.mark.parametrize(
    "read",
    [
        lambda: onnx.from_arrays([]),
        lambda: build_layers([[]]),
        lambda: get_cudnn_buffer([]),
        lambda: set_cudnn_buffer([], np.zeros(0)),
    ],
)
def test_no_layers(read: Any) -> None:
    with pytest.raises(ValueError, match=r"at least one layer is needed.*, got \[.*\]"):
        read()


def test_dtypes_are_those_of_the_network() -> None:
    layer = torch.from_state_dict({name: value.astype("float16") for name, value in torch_state("lstm", 1, 1).items()})
    assert {str(p.dtype) for p in layer.get_params()} == {sj.config.floatX}


def test_pytorch_reads_backwards_only_beside_forwards() -> None:
    one = GRULayer((None, None, 3), 4, backwards=True)
    for layers in (one, [one], RNNLayer(one, cells.GRU(2))):
        with pytest.raises(ValueError, match="reads backwards, which PyTorch does only beside a layer that reads forw"):
            torch.to_state_dict(layers)
    assert len(keras.to_weights(one)) == 1  # go_backwards=True


def test_what_is_no_weights() -> None:
    for state in (None, [np.ones(2)]):
        with pytest.raises(TypeError, match="state must be a state_dict, from names to tensors, got"):
            torch.from_state_dict(state)  # type: ignore[arg-type]
    arrays = [np.ones((3, 12)), np.ones((4, 12)), np.zeros((2, 12))]
    for weights in (None, np.ones((2, 2)), {"kernel": arrays[0]}):
        with pytest.raises(TypeError, match=r"weights must be the list that get_weights\(\) returns"):
            keras.from_weights(weights)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="reset_after must be True, False or None, got 'no'"):
        keras.from_weights(arrays, reset_after="no")  # type: ignore[arg-type]
    with pytest.raises(sj.ArgumentError, match="the kernel of layer 0 has masked entries"):
        keras.from_weights([np.ma.masked_less(arrays[0], 2.0), *arrays[1:]])


def test_cudnn_reads_backwards_only_beside_forwards() -> None:
    with pytest.raises(ValueError, match="reads backwards, which cuDNN does only beside"):
        tf_cudnn.to_variables(LSTMLayer((None, None, 3), 4, peepholes=False, backwards=True))
