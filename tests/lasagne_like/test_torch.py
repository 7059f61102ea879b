"""PyTorch as a second oracle, where it is installed: its recurrent layers and its optimizers."""

from typing import Any

import numpy as np
import pytest

import scanjit as sj
from lasagne_like import cells, init, updates as u
from lasagne_like.layers import Bidirectional, InputLayer, RNNLayer, SelectLayer, get_all_params, get_output
from tests.lasagne_like.recurrent_support import close

torch = pytest.importorskip("torch")

BATCH, LENGTH, INPUTS, UNITS = 4, 6, 3, 5
LENGTHS = [4, 6, 1, 3]


class Kind:
    """How a recurrent layer of PyTorch is written as a cell: its gates, in PyTorch's order, and what is different."""

    def __init__(self, gates: list[str], make: Any, **options: Any) -> None:
        self.gates, self.make, self.options = gates, make, options

    def ours(self, theirs: Any, suffix: str, two_biases: bool) -> dict[str, np.ndarray]:
        """From the values of PyTorch's weights, or from their gradients: what belongs to our parameters, by name.

        Of values, our bias is the sum of two; the gradients of these two are alike. The candidate of a GRU has both, as
        one is inside of its reset gate; and its update gate is 1 minus ours, so its weights have the other sign.
        """
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        parts = [np.split(theirs(f"{name}_{suffix}"), len(self.gates)) for name in names]
        found = {}
        for gate, W, R, b, c in zip(self.gates, *parts, strict=True):
            if gate == "hidden_update":
                found["b_hid"] = c
            elif two_biases:
                b = b + c
            sign = -1 if gate == "updategate" else 1
            found |= {f"W_in_to_{gate}": sign * W.T, f"W_hid_to_{gate}": sign * R.T, f"b_{gate}": sign * b}
        if "proj_size" in self.options:
            found["W_proj"] = theirs(f"weight_hr_{suffix}").T
        return found


LSTM_GATES = ["ingate", "forgetgate", "cell", "outgate"]
KINDS = {
    "LSTM": Kind(LSTM_GATES, lambda: cells.LSTM(UNITS)),
    "LSTM-projected": Kind(LSTM_GATES, lambda: cells.LSTM(UNITS, num_proj=2), proj_size=2),
    "GRU": Kind(["resetgate", "updategate", "hidden_update"], lambda: cells.GRU(UNITS, b_hid=init.Constant(0.0))),
}


def build(kind: Kind, depth: int, both: bool, lengths: bool) -> tuple[Any, list[Any]]:
    """The input layer, and for each layer of PyTorch's and each direction our layer; the last one comes last."""
    l_in = previous = InputLayer((None, None, INPUTS))
    layers: list[Any] = []
    for _ in range(depth):
        given = np.array(LENGTHS) if lengths else None
        layer = RNNLayer(previous, kind.make(), seq_lengths=given, zero_output_for_mask=lengths, return_state=True)
        layers.append(Bidirectional(layer) if both else layer)
        previous = SelectLayer(layers[-1], 0)
    return l_in, layers


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("depth", "both", "lengths"), [(1, False, False), (1, True, True), (2, True, True)])
@pytest.mark.parametrize("name", KINDS)
def test_recurrent_layers(
    name: str, depth: int, both: bool, lengths: bool, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outputs, last states, and the gradients of the input and of all weights."""
    monkeypatch.setattr(sj.config, "floatX", dtype)
    kind, rng = KINDS[name], np.random.default_rng(1)
    torch.manual_seed(1)
    module = getattr(torch.nn, name.split("-")[0])(
        INPUTS, UNITS, depth, bidirectional=both, batch_first=True, dtype=getattr(torch, dtype), **kind.options
    )
    x = rng.normal(size=(BATCH, LENGTH, INPUTS)).astype(dtype)
    given = torch.tensor(x, requires_grad=True)
    pack = torch.nn.utils.rnn.pack_padded_sequence
    packed = pack(given, LENGTHS, batch_first=True, enforce_sorted=False) if lengths else given
    out, final = module(packed)
    if lengths:
        out, _ = torch.nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
    finals = final if isinstance(final, tuple) else (final,)  # (h, c), each (layers * directions, batch, units)
    expected = [out, *(h[i] for i in range(depth * (1 + both)) for h in reversed(finals))]
    weights = [rng.normal(size=tuple(value.shape)).astype(dtype) for value in expected]
    sum((value * torch.tensor(w)).sum() for value, w in zip(expected, weights, strict=True)).backward()

    l_in, layers = build(kind, depth, both, lengths)
    ways = [way for layer in layers for way in ([layer.forward_layer, layer.backward_layer] if both else [layer])]
    suffixes = [f"l{i}{way}" for i in range(depth) for way in (("", "_reverse") if both else ("",))]
    state = dict(module.named_parameters())
    params, slopes = [], []
    for way, suffix in zip(ways, suffixes, strict=True):
        values = kind.ours(lambda key: state[key].detach().numpy(), suffix, True)
        gradients = kind.ours(lambda key: state[key].grad.numpy(), suffix, False)
        for param in way.cell.get_params():
            param.set_value(values[param.name])
            params.append(param)
            slopes.append(gradients[param.name])
    assert len(params) == len(get_all_params(layers[-1]))
    outputs = get_output(layers)
    states = [cells.structure.flatten(state) for _, pair in outputs for state in (pair if both else [pair])]
    ours = [outputs[-1][0], *(leaf for parts in states for leaf in parts)]
    loss = sum((y * w).sum() for y, w in zip(ours, weights, strict=True))
    f = sj.function([l_in.input_var], [*ours, *sj.grad(loss, [l_in.input_var, *params])], mode="emulate")
    found = f(x)
    wanted = [*(value.detach().numpy() for value in expected), given.grad.numpy(), *slopes]
    for got, value in zip(found, wanted, strict=True):
        assert got.dtype == dtype
        close(got, value, 1e-10 if dtype == "float64" else 2e-5)


RULES: dict[str, tuple[Any, Any, dict[str, float]]] = {
    "sgd": (u.sgd, "SGD", {}),
    "momentum": (u.momentum, "SGD", {"momentum": 0.8}),
    "nesterov_momentum": (u.nesterov_momentum, "SGD", {"momentum": 0.8, "nesterov": True}),
    "adagrad": (u.adagrad, "Adagrad", {"eps": 0.0}),
    "rmsprop": (u.rmsprop, "RMSprop", {"alpha": 0.7, "eps": 0.0}),
    "adadelta": (u.adadelta, "Adadelta", {"rho": 0.8, "eps": 1e-3}),
    "adam": (u.adam, "Adam", {"betas": (0.8, 0.95), "eps": 0.0}),
    "adamw": (u.adamw, "AdamW", {"betas": (0.8, 0.95), "eps": 0.0, "weight_decay": 0.2}),
    "adamax": (u.adamax, "Adamax", {"betas": (0.8, 0.95), "eps": 0.0}),
    "amsgrad": (u.amsgrad, "Adam", {"betas": (0.8, 0.95), "eps": 0.0, "amsgrad": True}),
}  # type: ignore[dict-item]
"""Our rule, PyTorch's, and its arguments. `eps` is 0 where it is added in another place."""


def translated(theirs: dict[str, Any]) -> dict[str, Any]:
    """PyTorch's arguments, as our rules call them."""
    names = {"eps": "epsilon", "alpha": "rho"}
    kwargs = {
        names.get(key, key): value for key, value in theirs.items() if key not in ("betas", "nesterov", "amsgrad")
    }
    return kwargs | dict(zip(("beta1", "beta2"), theirs.get("betas", ()), strict=False))


@pytest.mark.parametrize("name", RULES)
def test_update_rules(name: str, rng: np.random.Generator) -> None:
    rule, theirs, kwargs = RULES[name]
    start, gradients = rng.normal(size=4), rng.normal(size=(10, 4))
    x, g = sj.shared(start, "x"), sj.vector("g")
    step = sj.function([g], updates=rule([g], [x], learning_rate=0.1, **translated(kwargs)), mode="reference")
    other = torch.tensor(start, requires_grad=True)
    optimizer = getattr(torch.optim, theirs)([other], lr=0.1, **kwargs)
    for gradient in gradients:
        step(gradient)
        other.grad = torch.tensor(gradient)
        optimizer.step()
        close(x.get_value(), other.detach().numpy(), 1e-12)
