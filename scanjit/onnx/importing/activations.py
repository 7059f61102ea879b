"""The activations of recurrent ops, by name, with the numbers that some of them take."""

import functools
from collections.abc import Callable, Sequence

from scanjit import errors
from scanjit.ir import Node
from scanjit.onnx import functions as tensor
from scanjit.onnx.importing import elementwise
from scanjit.onnx.importing.call import Call

Activation = Callable[[Node], Node]

_TABLE: dict[str, tuple[Callable[..., Node], tuple[float, ...]]] = {
    "affine": (elementwise.affine, (1.0, 0.0)),
    "elu": (lambda x, alpha: tensor.elu(x, alpha), (1.0,)),
    "hardsigmoid": (elementwise.hard_sigmoid, (0.2, 0.5)),
    "leakyrelu": (elementwise.leaky_relu, (0.01,)),
    "relu": (tensor.relu, ()),
    "scaledtanh": (elementwise.scaled_tanh, (1.0, 1.0)),
    "sigmoid": (tensor.sigmoid, ()),
    "softplus": (tensor.softplus, ()),
    "softsign": (tensor.softsign, ()),
    "tanh": (tensor.tanh, ()),
    "thresholdedrelu": (elementwise.thresholded_relu, (1.0,)),
}
"""For each name, in small letters: a function of x, alpha and beta, and the defaults of the numbers that it takes."""


def of(call: Call, defaults: Sequence[str], directions: int) -> list[tuple[Activation, ...]]:
    """The activations of each direction. Those that take numbers take the next ones of `activation_alpha` and
    `_beta`."""
    names = call.texts("activations", list(defaults) * directions)
    if len(names) != len(defaults) * directions:
        raise errors.FormatError(
            f"{call.op} has {len(defaults)} activations a direction", got=", ".join(map(repr, names))
        )
    alphas, betas = iter(call.numbers("activation_alpha", [])), iter(call.numbers("activation_beta", []))
    found = []
    for name in names:
        if name.lower() not in _TABLE:
            raise errors.NotSupportedError(f"there is no activation {name!r}", expected=", ".join(_TABLE))
        function, own = _TABLE[name.lower()]
        given = tuple(next(values, default) for values, default in zip((alphas, betas), own, strict=False))
        found.append(functools.partial(_applied, function, given))
    size = len(defaults)
    return [tuple(found[i * size : (i + 1) * size]) for i in range(directions)]


def _applied(function: Callable[..., Node], numbers: tuple[float, ...], x: Node) -> Node:
    return function(x, *numbers)
