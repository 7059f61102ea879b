"""The base of cells with gates. Each gate has its own parameters, but one product computes all gates."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Unpack

import scanjit as sj
from lasagne_like import init
from lasagne_like.arguments import check_used
from lasagne_like.cells.base import Cell, CellOptions, features_of
from lasagne_like.cells.gate import Gate

__all__ = ["GatedCell", "layer_normed"]


class GatedCell(Cell):
    """The base of cells that compute several gates from the input, and in most cells from the last output, too.

    The parameters of a gate are attributes of the cell: `W_in_to_<gate>`, `W_hid_to_<gate>` and `b_<gate>`. Before the
    loop, the weights of all gates are concatenated. So a step needs one product with the input and one with the last
    output.

    Parameters
    ----------
    num_units : int
        The number of units of each gate.
    gates : dict, optional
        From the names of gates to their specifications. A subclass that defines `make_params` does not need it.
    recurrent : bool
        Whether gates are computed from the last output, too.
    **kwargs
        See `Cell`.

    Examples
    --------
    A memory with one gate:

    >>> import lasagne_like as lasagne
    >>> class Latch(lasagne.cells.GatedCell):
    ...     def __init__(self, num_units):
    ...         gates = {"gate": lasagne.cells.Gate(), "new": lasagne.cells.Gate(nonlinearity=None)}
    ...         super().__init__(num_units, gates)
    ...
    ...     def recur(self, z, h):
    ...         gate, new = self.split(z + self.project_hidden(h))
    ...         gate = self.nonlinearity_gate(gate)
    ...         h = gate * h + (1 - gate) * new
    ...         return h, h
    >>> layer = lasagne.layers.RNNLayer((None, None, 3), Latch(5))
    >>> layer.output_shape, layer.cell.W_hid_to_gate.shape
    ((None, None, 5), (5, 5))
    """

    weight_norm = False

    def __init__(
        self,
        num_units: int,
        gates: Mapping[str, Gate] | None = None,
        recurrent: bool = True,
        **kwargs: Unpack[CellOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.num_units, self.recurrent = num_units, recurrent
        self.gates: Any = gates
        self.state_shape: Any = (num_units,)
        self._stacked: tuple[str, ...] = ()

    def add_gates(
        self,
        gates: Mapping[str, Gate],
        num_inputs: int,
        num_hidden: int | None,
        *,
        stacked: Sequence[str] | None = None,
        bias: bool = True,
        peepholes: Collection[str] = (),
    ) -> None:
        """Make the parameters of gates.

        Parameters
        ----------
        gates : a dict from names to specifications, in the order in which parameters are made.
        num_inputs : the number of features of the input.
        num_hidden : the number of features of the last output; None if gates do not read it.
        stacked : the names of the gates in the order of their columns in the products; by default, that of `gates`.
        bias : whether gates have biases.
        peepholes : the names of the gates whose `W_cell` the cell uses.
        """
        for name, gate in gates.items():
            if not isinstance(gate, Gate):
                raise TypeError(f"{name} of {self!r} must be a Gate, got {gate!r}")
            where = f"in the gate {name!r} of {self!r}"
            if name not in peepholes:
                check_used(gate, f"{where}, which has no peephole", "W_cell")
            if not bias:
                check_used(gate, f"{where}: the normalization has a shift in its place", "b")
            self._add_weight(gate.W_in, (num_inputs, self.num_units), f"in_to_{name}", optional=True)
            if num_hidden is None:
                check_used(gate, f"{where}, which does not read the last output", "W_hid")
            else:
                self._add_weight(gate.W_hid, (num_hidden, self.num_units), f"hid_to_{name}")
            self.keep_param(f"b_{name}", gate.b if bias else None, (self.num_units,), True, regularizable=False)
            setattr(self, f"nonlinearity_{name}", gate.nonlinearity)
        self._stacked = tuple(gates if stacked is None else stacked)
        without = [name for name, gate in gates.items() if gate.W_in is None]
        if without and (len(without) < len(gates) or num_inputs != self.num_units):
            raise ValueError(
                f"{self!r} has no W_in for {', '.join(without)}: these gates add the input as it is. This needs "
                "W_in=None for all gates, and an input with as many features as units; got W_in=None for "
                f"{len(without)} of {len(gates)} gates, with {num_inputs} features and {self.num_units} units"
            )

    def _add_weight(self, spec: Any, shape: tuple[int, int], name: str, optional: bool = False) -> None:
        self.keep_param(f"W_{name}", spec, shape, optional)
        if self.weight_norm and spec is not None:
            self.keep_param(f"g_{name}", init.Constant(1.0), (self.num_units,), regularizable=False)

    def _weight(self, name: str) -> Any:
        """A weight for the products. With `weight_norm`, the length of each column is a parameter."""
        W = getattr(self, f"W_{name}")
        if not self.weight_norm or W is None:
            return W
        return W * (getattr(self, f"g_{name}") / _lengths(W)).dimshuffle("x", 0)

    def precompute(self, x: Any) -> Any:
        """The products of the input with the weights of all gates, plus the biases. For gates without weights, the
        input itself takes the place of the products."""
        weights = [self._weight(f"in_to_{name}") for name in self._stacked]
        z = _concatenated([x] * len(weights)) if weights[0] is None else x @ _concatenated(weights)
        biases = [getattr(self, f"b_{name}") for name in self._stacked]
        if all(b is None for b in biases):
            return z
        zero = sj.zeros((self.num_units,), z.dtype)
        return z + _concatenated([zero if b is None else b for b in biases])

    def project_hidden(self, h: Any) -> Any:
        """The products of the last output with the weights of all gates."""
        return h @ _concatenated([self._weight(f"hid_to_{name}") for name in self._stacked])

    def split(self, z: Any) -> list[Any]:
        """Split the products of all gates: one part for each gate."""
        return sj.split(z, len(self._stacked), axis=-1)

    def activated(self, z: Any, name: str) -> Any:
        """The nonlinearity of a gate, applied to its part `z` of the products."""
        return getattr(self, f"nonlinearity_{name}")(z)

    def split_activated(self, z: Any) -> list[Any]:
        """Split the products of all gates, and apply the nonlinearity of each gate to its part."""
        return [self.activated(part, name) for part, name in zip(self.split(z), self._stacked, strict=True)]

    def make_params(self, input_shape: Any) -> None:
        if self.gates is None:
            raise NotImplementedError(f"{type(self).__name__} does not define make_params(input_shape)")
        self.add_gates(self.gates, self.num_inputs(input_shape), self.num_units if self.recurrent else None)

    def num_inputs(self, input_shape: Any) -> int:
        """The number of features of the input."""
        return features_of(self, input_shape)


def _concatenated(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else sj.concatenate(parts, axis=-1)


def _lengths(W: Any) -> Any:
    """The length of each column of a matrix."""
    return sj.sqrt(sj.sum(W * W, axis=0))


def layer_normed(z: Any, gain: Any, shift: Any, epsilon: float) -> Any:
    """Shift and scale the rows of a matrix to mean 0 and variance 1, then multiply by a gain and add a shift.

    Parameters
    ----------
    z : expression
        Rows are along its last axis.
    gain, shift : expressions
        One number for each column.
    epsilon : float
        Added to the variances.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.cells import layer_normed
    >>> sj.function([], layer_normed(sj.constant([[1.0, 3.0]]), 1.0, 0.5, 0.0), mode="reference")()
    array([[-0.5,  1.5]])
    """
    centred = z - sj.mean(z, axis=-1, keepdims=True)
    variance = sj.mean(centred * centred, axis=-1, keepdims=True)
    return centred / sj.sqrt(variance + epsilon) * gain + shift
