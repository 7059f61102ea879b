"""The bridge to PyTensor: a compiled function as a function of PyTensor's variables, with derivatives of every order.
So PyMC samples models whose loops are compiled here.

Arguments are not copied. Derivatives are compiled functions of their own, made when PyTensor first asks for them. The
results of loops and products are kept for them on the way forward.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scanjit import types
from scanjit.bridge import ArgumentKind, BridgedFunction, Derivative, ForeignFunction, imported, in_memory, is_weak
from scanjit.runtime.function_graph import Mode

__all__ = ["PytensorFunction", "as_op"]


def as_op(f: Callable[..., Any], mode: Mode = "numba") -> PytensorFunction:
    """A function for PyTensor's variables that PyTensor can differentiate.

    Parameters
    ----------
    f : CompiledFunction, or a function of symbols
        A compiled function is called as it is; its derivatives are compiled in its mode. A Python function is traced
        when it is first called, and again for other ranks and dtypes (not for other sizes); what it gives may be
        nested. Shared variables are constants here: they have the values that they have at each call.
    mode : str
        For a function of symbols: see `scanjit.function`.

    Returns
    -------
    PytensorFunction
        It takes variables and arrays, by position or by the names of inputs of a compiled function; it gives variables.

    Raises
    ------
    ArgumentError
        If the function updates shared variables: PyTensor could not see that.
    ImportError
        Without PyTensor: `pip install 'scanjit[pytensor]'`.

    Notes
    -----
    No gradient is computed for constants, such as the data of a model. PyTensor has no gradients of complex variables:
    where one is needed, give the real and the imaginary part, and take `sj.real` and `sj.imag` of what comes out.

    Examples
    --------
    >>> import pytensor.tensor as pt  # doctest: +SKIP
    >>> import scanjit as sj
    >>> smooth = sj.pytensor.as_op(lambda x, w: sj.scan(lambda row, h: w * h + row, x, sj.zeros(())))  # doctest: +SKIP
    >>> w = pt.dscalar("w")  # doctest: +SKIP
    >>> pt.grad(smooth([1.0, 1.0, 1.0], w).sum(), w).eval({w: 0.5})  # doctest: +SKIP
    array(3.)
    """
    return PytensorFunction(f, mode)


class PytensorFunction(ForeignFunction):
    """A function of PyTensor's variables, made by `as_op`.

    Parameters
    ----------
    f, mode : see `as_op`.

    Examples
    --------
    >>> from scanjit.pytensor import PytensorFunction, as_op  # doctest: +SKIP
    >>> isinstance(as_op(lambda x: x * x), PytensorFunction)  # doctest: +SKIP
    True
    """

    def __init__(self, f: Callable[..., Any], mode: Mode = "numba") -> None:
        _pytensor()
        super().__init__(f, mode, "PyTensor")

    def __call__(self, *args: Any, **named: Any) -> Any:
        pt = _pytensor().tensor
        variable = pt.as_tensor_variable
        args, made = self._programs.by_position(args, named), self._programs.compiled
        if made is not None:
            pairs = zip(args, made.types, strict=True)
            given = [variable(x, dtype=type_.dtype) if is_weak(x) else variable(x) for x, type_ in pairs]
        else:
            given = list(map(variable, args))
            kinds = tuple(map(_kind, args, given))
            made = self._programs.traced(kinds, default=_pytensor().config.floatX)
            found = zip(args, given, kinds, made.types, strict=True)
            given = [variable(x, dtype=type_.dtype) if kind.weak else value for x, value, kind, type_ in found]
        given = [in_memory(x, type_, pt) for x, type_ in zip(given, made.types, strict=True)]
        self._programs.check(given, made)
        keeping = made.program.keeping(_floats(made.program))
        return made.returned(_applied(keeping, given), lambda pairs: pt.complex(pairs[..., 0], pairs[..., 1]))


def _kind(value: Any, variable: Any) -> ArgumentKind:
    """The kind of an argument, and of the variable that PyTensor makes of it. For a Python number, PyTensor chooses the
    smallest dtype that holds it."""
    weak = is_weak(value) and not variable.owner
    return ArgumentKind(variable.ndim, str(np.asarray(value).dtype if weak else variable.dtype), weak)


def _floats(program: BridgedFunction) -> tuple[int, ...]:
    return tuple(i for i, node in enumerate(program.inputs) if node.type.kind.floating)


@functools.cache
def _pytensor() -> Any:
    """PyTensor, which is imported when it is first needed."""
    return imported("PyTensor", "pytensor", "pytensor.tensor")


def _applied(program: BridgedFunction, variables: Sequence[Any]) -> list[Any]:
    """The outputs of a program, as variables."""
    return _op_of(program)(*variables, return_list=True)


def _op_of(program: BridgedFunction) -> Any:
    return _op_class()(program)


@functools.cache
def _op_class() -> Any:
    """The class of our ops: a subclass of one of PyTensor's."""
    pytensor = _pytensor()
    from pytensor.gradient import DisconnectedType
    from pytensor.graph.basic import Apply, Constant
    from pytensor.graph.op import Op

    class ScanjitOp(Op):
        """A program as an op."""

        def __init__(self, program: BridgedFunction) -> None:
            self.program = program

        def __eq__(self, other: object) -> bool:
            return isinstance(other, ScanjitOp) and other.program is self.program

        def __hash__(self) -> int:
            return hash((ScanjitOp, id(self.program)))

        def __reduce__(self) -> tuple[Any, ...]:
            return _op_of, (self.program,)

        def __str__(self) -> str:
            return f"scanjit.{self.program.name}"

        def make_node(self, *inputs: Any) -> Any:
            made = [
                pytensor.tensor.tensor(
                    dtype=str(node.dtype), shape=tuple(n if isinstance(n, int) else None for n in node.type.shape)
                )
                for node in self.program.outputs
            ]
            return Apply(self, list(inputs), made)

        def perform(self, node: Any, inputs: Sequence[Any], storage: Sequence[list[Any]]) -> None:
            for place, value in zip(storage, self.program.run(list(map(np.asarray, inputs))), strict=True):
                place[0] = value

        def infer_shape(self, *given: Any) -> list[tuple[Any, ...]]:
            known: dict[Any, Any] = {}
            node, shapes = given[-2:]  # older versions give the graph too, first
            for x, sizes in zip(self.program.inputs, shapes, strict=True):
                known |= {types.as_atom(dim): size for dim, size in zip(x.type.shape, sizes, strict=True)}

            def size(dim: types.Dimension, output: Any, axis: int) -> Any:
                found = dim if isinstance(dim, int) else known.get(types.as_atom(dim))
                return output.shape[axis] if found is None else found

            return [
                tuple(size(dim, output, axis) for axis, dim in enumerate(x.type.shape))
                for x, output in zip(self.program.outputs, node.outputs, strict=True)
            ]

        def connection_pattern(self, node: Any) -> list[list[bool]]:
            inputs = range(len(self.program.inputs))
            return [[i in self._differentiable(node.inputs) and some for some in self.program.floats] for i in inputs]

        def _differentiable(self, inputs: Sequence[Any]) -> tuple[int, ...]:
            return tuple(i for i in _floats(self.program) if not isinstance(inputs[i], Constant))

        def pullback(self, inputs: Sequence[Any], outputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
            program = self.program
            needed = self._differentiable(inputs)
            given = tuple(i for i, g in enumerate(cotangents) if _is_there(g) and program.floats[i])
            pullback = program.pullback(needed, given)
            found = self._derived(pullback, inputs, outputs, [cotangents[i] for i in given])
            return [found.get(i, _nothing(x, i in needed)) for i, x in enumerate(inputs)]

        L_op = pullback  # what it was called before

        def pushforward(self, inputs: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
            program = self.program
            needed = tuple(i for i in _floats(program) if _is_there(tangents[i]))
            tangent = program.tangent(needed)
            found = self._derived(tangent, inputs, outputs, [tangents[i] for i in needed])
            return [found.get(i, _nothing(y, program.floats[i])) for i, y in enumerate(outputs)]

        def _derived(
            self, derivative: Derivative, inputs: Sequence[Any], outputs: Sequence[Any], seeds: Sequence[Any]
        ) -> dict[int, Any]:
            """The derivatives that are not zero, by their positions."""
            if not derivative.reached:
                return {}
            kept = [outputs[i] for i in self.program.kept]
            found = _applied(derivative.program, [*inputs, *kept, *seeds])
            return dict(zip(derivative.reached, found, strict=True))

    def _nothing(variable: Any, connected: bool) -> Any:
        return pytensor.tensor.zeros_like(variable) if connected else DisconnectedType()()

    def _is_there(variable: Any) -> bool:
        return not isinstance(variable.type, DisconnectedType)

    _register(ScanjitOp)
    return ScanjitOp


def _register(kind: Any) -> None:
    """Let PyTensor's Numba call our ops through Python, as it does with any op, without a warning."""
    with contextlib.suppress(ImportError):
        from pytensor.link.numba.dispatch.basic import generate_fallback_impl, numba_funcify

        @numba_funcify.register(kind)
        def called(op: Any, node: Any = None, **rest: Any) -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return generate_fallback_impl(op, node, **rest)
