"""The bridge to PyTorch: a compiled function as a function of tensors, with derivatives of every order.

Tensors on the CPU and NumPy's arrays share memory. Only a tensor that is not contiguous is copied. The gradient is a
compiled function of its own, made when PyTorch first asks for it, for those inputs that need it. It is called through
the same bridge, so it has a gradient too. The results of loops and products are kept for it on the way forward.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any

import numpy as np

from scanjit import errors
from scanjit.arrays import BFLOAT16, array_of
from scanjit.bridge import ArgumentKind, BridgedFunction, ForeignFunction, imported, is_weak
from scanjit.ir import Node
from scanjit.runtime.function_graph import Mode
from scanjit.types import Type

__all__ = ["TorchFunction", "as_function"]


def as_function(f: Callable[..., Any], mode: Mode = "numba") -> TorchFunction:
    """A function for PyTorch's tensors that PyTorch can differentiate.

    Parameters
    ----------
    f : CompiledFunction, or a function of symbols
        A compiled function is called as it is; its gradients are compiled in its mode. A Python function is traced when
        it is first called, and again for other ranks and dtypes (not for other sizes); what it gives may be nested.
        Shared variables are constants here: they have the values that they have at each call, forward and backward.
    mode : str
        For a function of symbols: see `scanjit.function`.

    Returns
    -------
    TorchFunction
        It takes tensors on the CPU, by position (or by the names of inputs of a compiled function), and gives new ones.

    Raises
    ------
    ArgumentError
        If the function updates shared variables: derivatives of PyTorch could not see that.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> import scanjit as sj
    >>> from scanjit.torch import as_function  # doctest: +SKIP
    >>> smooth = as_function(lambda x, w: sj.scan(lambda row, h: w * h + row, x, sj.zeros(())))  # doctest: +SKIP
    >>> w = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)  # doctest: +SKIP
    >>> smooth(torch.ones(3, dtype=torch.float64), w).sum().backward()  # doctest: +SKIP
    >>> w.grad  # doctest: +SKIP
    tensor(3., dtype=torch.float64)
    """
    return TorchFunction(f, mode)


class TorchFunction(ForeignFunction):
    """A function of tensors, made by `as_function`.

    Parameters
    ----------
    f, mode : see `as_function`.

    Examples
    --------
    >>> from scanjit.torch import TorchFunction, as_function  # doctest: +SKIP
    >>> isinstance(as_function(lambda x: x * x), TorchFunction)  # doctest: +SKIP
    True
    """

    def __init__(self, f: Callable[..., Any], mode: Mode = "numba") -> None:
        compiler = _torch().compiler
        # What `torch.compile` translates calls our functions as they are: it cannot translate them.
        self._is_compiling, self._outside = compiler.is_compiling, compiler.disable
        super().__init__(f, mode, "PyTorch")

    def __call__(self, *args: Any, **named: Any) -> Any:
        if self._is_compiling():
            return self._outside(self._result)(*args, **named)
        return self._result(*args, **named)

    def _result(self, *args: Any, **named: Any) -> Any:
        args, made = self._programs.by_position(args, named), self._programs.compiled
        if made is None:
            made = self._programs.traced(tuple(map(_kind, args)))
        slots = zip(args, made.program.inputs, made.types, strict=True)
        return made.returned(_called(made.program, [*starmap(_as_tensor, slots)]), _torch().view_as_complex)


# ---- tensors and arrays ----------------------------------------------------------------------------------------------


@functools.cache
def _torch() -> Any:
    """PyTorch, which is imported when it is first needed."""
    return imported("PyTorch", "torch")


def _kind(value: Any) -> ArgumentKind:
    """The kind of a tensor, an array or a number."""
    if not isinstance(value, _torch().Tensor):
        array = array_of(value)
        return ArgumentKind(array.ndim, str(array.dtype.newbyteorder("=")), is_weak(value))
    return ArgumentKind(value.ndim, str(value.dtype).removeprefix("torch."), False)


def _as_tensor(value: Any, node: Node, type_: Type) -> Any:
    """The value for an input that a user declared with this type, as a tensor in the form in which we keep it in
    memory."""
    if isinstance(value, _torch().Tensor):
        if not type_.kind.is_complex:
            return value
        return _torch().view_as_real((value if value.is_complex() else value + 0j).resolve_conj())
    try:
        array = np.array(value, type_.dtype if is_weak(value) or type_.kind.is_complex else None)
        array = array.astype(array.dtype.newbyteorder("="), copy=False)  # PyTorch has no other
        return _as_tensor(_from_array(array), node, type_)
    except (TypeError, ValueError) as error:
        raise errors.ArgumentError(
            f"the value for {node!r} is neither a tensor nor an array", got=repr(value), expected=str(error)
        ) from None


def _as_array(value: Any, label: str) -> np.ndarray:
    """The array that shares the memory of a tensor."""
    if value.device.type != "cpu" or value.layout is not _torch().strided:
        raise errors.ArgumentError(
            f"{label} is not a dense tensor on the CPU",
            got=f"a {value.layout} tensor on {value.device}",
            fix="move it with .cpu() (or .to_dense()): compiled code runs on the CPU",
        )

    def refused(why: str) -> errors.DtypeError:
        return errors.DtypeError(
            f"{label} has a dtype that NumPy has not", got=str(value.dtype), fix=f"convert it ({why})"
        )

    return array_of(value.detach().resolve_neg().resolve_conj(), refused)


def _from_array(array: np.ndarray) -> Any:
    """The tensor that shares the memory of an array."""
    if array.dtype.name == BFLOAT16:
        return _torch().from_numpy(array.view(np.int16)).view(_torch().bfloat16)
    return _torch().from_numpy(array)


# ---- calls -----------------------------------------------------------------------------------------------------------


def _called(program: BridgedFunction, tensors: Sequence[Any]) -> tuple[Any, ...]:
    """The outputs of a program, which PyTorch can differentiate."""
    needed: tuple[int, ...] = ()
    torch = _torch()
    if torch.is_grad_enabled():
        needed = tuple(i for i, value in enumerate(tensors) if value.requires_grad)
    call = _call_class(torch._C._are_functorch_transforms_active())
    return call.apply(program.keeping(needed) if needed else program, *tensors)[: len(program.outputs)]


def _run(program: BridgedFunction, tensors: Sequence[Any]) -> list[Any]:
    """New tensors from tensors, without derivatives."""
    arrays = [_as_array(value, label) for value, label in zip(tensors, program.labels, strict=True)]
    return [_from_array(array) for array in program.run(arrays)]


@functools.cache
def _call_class(in_transform: bool) -> Any:
    """The class of calls, for autograd: a subclass of one of PyTorch's. Inside of the transforms of `torch.func`, a
    function of its own chooses what is kept for derivatives; such calls take longer."""

    def keep(ctx: Any, inputs: Any, outputs: Any) -> None:
        ctx.program, *tensors = inputs
        kept = *tensors, *(outputs[i] for i in ctx.program.kept)
        ctx.save_for_backward(*kept)
        if in_transform:
            ctx.save_for_forward(*kept)
            ctx.forms = [(out.shape, out.dtype) for out in outputs]
        ctx.set_materialize_grads(False)
        floats = zip(outputs, ctx.program.floats, strict=True)
        ctx.mark_non_differentiable(*(out for out, some in floats if not some))

    def run(program: BridgedFunction, *tensors: Any) -> Any:
        return tuple(_run(program, tensors))

    def run_and_keep(ctx: Any, program: BridgedFunction, *tensors: Any) -> Any:
        outputs = tuple(_run(program, tensors))
        keep(ctx, (program, *tensors), outputs)
        return outputs

    def backward(ctx: Any, *cotangents: Any) -> Any:
        return None, *_cotangents(ctx.program, ctx.saved_tensors, ctx.needs_input_grad[1:], cotangents)

    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        program, given = ctx.program, {i: g for i, g in enumerate(tangents) if g is not None}
        needed = tuple(i for i in given if program.inputs[i].type.kind.floating)
        tangent = program.tangent(needed)
        found = _called(tangent.program, [*ctx.saved_tensors, *(given[i] for i in needed)])
        reached = dict(zip(tangent.reached, found, strict=True))
        for i, (shape, dtype) in enumerate(ctx.forms):
            if program.floats[i] and i not in reached:  # `torch.func.hessian` fails if a tangent is None
                reached[i] = _torch().zeros(shape, dtype=dtype)
        return tuple(reached.get(i) for i in range(len(program.outputs)))

    def vmap(_: Any, axes: Any, program: BridgedFunction, *tensors: Any) -> Any:
        over = tuple(axis is not None for axis in axes[1:])
        moved = [x if axis is None else x.movedim(axis, 0) for x, axis in zip(tensors, axes[1:], strict=True)]
        outputs = _called(program.batched(over), moved)
        return outputs, (0,) * len(outputs)

    methods: dict[str, Callable[..., Any]] = {"forward": run_and_keep, "backward": backward}
    if in_transform:
        methods = {"forward": run, "setup_context": keep, "backward": backward, "jvp": jvp, "vmap": vmap}
    return type("Call", (_torch().autograd.Function,), {name: staticmethod(f) for name, f in methods.items()})


def _cotangents(
    program: BridgedFunction, tensors: Sequence[Any], need: Sequence[bool], cotangents: Sequence[Any]
) -> list[Any]:
    """The cotangents of the inputs, from those of the outputs. None for inputs that need none."""
    results: list[Any] = [None] * len(program.inputs)
    needed = tuple(i for i, some in enumerate(need) if some)
    given = tuple(i for i, g in enumerate(cotangents) if g is not None and program.floats[i])
    if needed and given:
        gradient, reached = program.pullback(needed, given)
        found = _called(gradient, [*tensors, *(cotangents[i] for i in given)]) if reached else ()
        for i, g in zip(reached, found, strict=True):
            results[i] = g
    return results
