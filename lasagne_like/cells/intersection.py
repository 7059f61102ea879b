"""A cell with one gate for the state and one gate for the output."""

from typing import Any, Unpack

from lasagne_like import init, nonlinearities
from lasagne_like.cells.base import CellOptions
from lasagne_like.cells.gate import Gate
from lasagne_like.cells.gated import GatedCell
from lasagne_like.utils import biased

__all__ = ["IntersectionRNN"]

_SIGMOID = Gate(init.GlorotUniform(), init.Orthogonal(), None)


class IntersectionRNN(GatedCell):
    """A cell with two gates: one mixes the old state with a candidate, the other mixes the input with an output.

    The pre-activations gh, h', gy and y' are `x @ W_in_to_* + h_ @ W_hid_to_* + b_*`::

        g = sigmoid(gh + forget_bias);  h = g * h_ + (1 - g) * tanh(h')
        g = sigmoid(gy + forget_bias);  y = g * x  + (1 - g) * relu(y')

    The input must have `num_units` features, unless it is projected.

    Parameters
    ----------
    num_units : int
    hidgate, hid, outgate, out : Gate
        The specifications of the parameters and the nonlinearities.
    forget_bias : float
        A constant that is added to the pre-activations of both gates, besides their biases. It is not a parameter.
    W_in_proj, b_in_proj : initializer, array, shared variable, expression or None
        Of the shapes (num_inputs, num_units) and (num_units,). `x @ W_in_proj + b_in_proj` takes the place of the
        input. None for no projection.
    **kwargs
        `grad_clipping` and `name`: see `Cell`.

    References
    ----------
    Collins, Sohl-Dickstein and Sussillo, "Capacity and trainability in recurrent neural networks", 2017.

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> from lasagne_like.cells import IntersectionRNN
    >>> IntersectionRNN(5).build(3)
    Traceback (most recent call last):
        ...
    ValueError: <IntersectionRNN> adds its input to the output, so it needs 5 features, got 3: give it W_in_proj
    >>> IntersectionRNN(5, W_in_proj=lasagne.init.GlorotUniform()).build(3).output_shape
    (5,)
    """

    def __init__(
        self,
        num_units: int,
        hidgate: Gate = _SIGMOID,
        hid: Gate = Gate(init.GlorotUniform(), init.Orthogonal(), None, nonlinearity=nonlinearities.tanh),
        outgate: Gate = _SIGMOID,
        out: Gate = Gate(init.GlorotUniform(), init.Orthogonal(), None, nonlinearity=nonlinearities.rectify),
        forget_bias: float = 1.0,
        W_in_proj: Any = None,
        b_in_proj: Any = init.Constant(0.0),
        **kwargs: Unpack[CellOptions],
    ) -> None:
        super().__init__(num_units, {"hidgate": hidgate, "hid": hid, "outgate": outgate, "out": out}, **kwargs)
        self.forget_bias = forget_bias
        self.specs = {"W_in_proj": W_in_proj, "b_in_proj": None if W_in_proj is None else b_in_proj}

    def make_params(self, input_shape: Any) -> None:
        found, n = self.num_inputs(input_shape), self.num_units
        self.add_specified(["W_in_proj", "b_in_proj"], W_in_proj=(found, n), b_in_proj=(n,))
        if self.W_in_proj is None and found != n:
            raise ValueError(
                f"{self!r} adds its input to the output, so it needs {n} features, got {found}: give it W_in_proj"
            )
        self.add_gates(self.gates, n, n)

    def precompute(self, x: Any) -> Any:
        if self.W_in_proj is not None:
            x = biased(x @ self.W_in_proj, self.b_in_proj)
        return x, super().precompute(x)

    def recur(self, z: Any, state: Any) -> tuple[Any, Any]:
        x, z = z
        gate_h, new_h, gate_y, new_y = self.split(self.clipped(z + self.project_hidden(state)))
        gate_h = self.activated(gate_h + self.forget_bias, "hidgate")
        gate_y = self.activated(gate_y + self.forget_bias, "outgate")
        h = gate_h * state + (1 - gate_h) * self.activated(new_h, "hid")
        return gate_y * x + (1 - gate_y) * self.activated(new_y, "out"), h
