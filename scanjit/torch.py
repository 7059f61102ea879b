"""The bridge to PyTorch: a compiled function as a function of tensors, with derivatives of every order.

Tensors on the CPU and NumPy's arrays share memory. Only a tensor that is not contiguous is copied. The gradient is a
compiled function of its own, made when PyTorch first asks for it, for those inputs that need it. It is called through
the same bridge, so it has a gradient too. The results of loops and products are kept for it on the way forward.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Sequence
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import Node, new_input
from scanjit.loops.structure import Tree
from scanjit.ops import Elementwise
from scanjit.ops.chain import carries_gradient, pullback
from scanjit.ops.view import View
from scanjit.runtime.function import CompiledFunction, function
from scanjit.runtime.function_graph import Mode, check_mode
from scanjit.tensor import tensor
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


class TorchFunction:
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
        _torch()
        check_mode(mode)
        if not callable(f):
            raise errors.ArgumentError("a function for PyTorch is made of a function", got=repr(f))
        self.f, self.mode = f, mode
        self.__name__ = getattr(f, "__name__", "function")
        self._programs: dict[tuple[Any, ...], _Made] = {}
        self._lock = threading.Lock()
        if isinstance(f, CompiledFunction):
            self.mode = f.mode
            self._programs[()] = _of_compiled(f)

    def __reduce__(self) -> tuple[Any, ...]:
        return TorchFunction, (self.f, self.mode)

    def __call__(self, *args: Any, **named: Any) -> Any:
        if isinstance(self.f, CompiledFunction):
            args = self.f.by_position(args, named)
            made = self._programs[()]
        else:
            made = self._traced(args, named)
        slots = zip(args, made.program.inputs, made.types, strict=True)
        outputs = zip(made.program(*starmap(_as_tensor, slots)), made.tree.stored(), strict=True)
        return made.tree.whole().unflatten([_torch().view_as_complex(x) if pairs else x for x, pairs in outputs])

    def _traced(self, args: Sequence[Any], named: dict[str, Any]) -> _Made:
        """The program for tensors of these ranks and dtypes."""
        if named:
            raise errors.ArgumentError(
                f"{self.__name__} is a function of symbols: it takes tensors by position", got=", ".join(named)
            )
        kinds = tuple(_kind(value, f"argument {i} of {self.__name__}") for i, value in enumerate(args))
        with self._lock:
            if kinds not in self._programs:
                symbols = [tensor((None,) * ndim, dtype) for ndim, dtype in kinds]
                compiled = function(symbols, self.f(*symbols), name=self.__name__, mode=self.mode)
                self._programs[kinds] = _of_compiled(compiled)
            return self._programs[kinds]

    def __repr__(self) -> str:
        return f"<scanjit.torch: {self.f!r}>"


class _Made(NamedTuple):
    """The program of a function, the structure of what it returns, and the types that its inputs have for users.

    The program knows complex tensors as tensors of floats, whose last axis holds the two parts."""

    program: _Program
    tree: Tree
    types: list[Type]


def _of_compiled(f: CompiledFunction[Any]) -> _Made:
    if f.graph.updates:
        updated = ", ".join(variable.name or "unnamed" for variable, _ in f.graph.updates)
        raise errors.ArgumentError(
            f"{f.name} updates shared variables, which a function for PyTorch cannot",
            got=updated,
            fix="return the new values as outputs, and give the old ones as inputs",
        )
    graph, declared = f.graph, list(map(ir.declared, f.graph.inputs))
    if graph.tree is None:
        raise errors.ArgumentError(f"{f.name} gives nothing", fix="give it outputs")
    if any(graph.tree.stored()) or any(type_.kind.is_complex for type_ in declared):
        stored = [new_input(node.type, node.name) for node in graph.inputs]
        outputs = ir.replace(graph.outputs, dict(zip(graph.inputs, stored, strict=True)))
        return _Made(_Program(stored, outputs, f.name, f.mode), graph.tree, declared)
    return _Made(_Program(graph.inputs, graph.outputs, f.name, f.mode, f), graph.tree, declared)


# ---- tensors and arrays ----------------------------------------------------------------------------------------------


@functools.cache
def _torch() -> Any:
    """PyTorch, which is imported when it is first needed."""
    try:
        import torch
    except ImportError as error:
        raise ImportError("scanjit.torch needs PyTorch: pip install 'scanjit[torch]'") from error
    return torch


def _kind(value: Any, label: str) -> tuple[int, str]:
    """The rank and the dtype of a tensor."""
    if not isinstance(value, _torch().Tensor):
        value = np.asarray(value)
        return value.ndim, str(value.dtype)
    return value.ndim, str(_as_array(value, label).dtype)


def _as_tensor(value: Any, node: Node, type_: Type) -> Any:
    """What was given for an input that a user declared as one of this type, as a tensor as it lies in memory."""
    if isinstance(value, _torch().Tensor):
        if not type_.kind.is_complex:
            return value
        return _torch().view_as_real((value if value.is_complex() else value + 0j).resolve_conj())
    weak = isinstance(value, bool | int | float | complex | list | tuple)
    try:
        array = np.array(value, type_.dtype if weak or type_.kind.is_complex else None)
        return _as_tensor(_torch().from_numpy(array), node, type_)
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
    try:
        return value.detach().resolve_neg().resolve_conj().numpy()
    except (TypeError, RuntimeError) as error:
        raise errors.DtypeError(
            f"{label} has a dtype that NumPy has not", got=str(value.dtype), fix=f"convert it ({error})"
        ) from None


# ---- programs --------------------------------------------------------------------------------------------------------


class _Program:
    """Outputs as a function of inputs, compiled when first run; and, again as programs, its pullbacks.

    Parameters
    ----------
    inputs, outputs, name, mode : what it computes, and how.
    compiled : the function, if there is one already.
    kept : positions of outputs that pullbacks read, rather than compute them again.
    """

    def __init__(
        self,
        inputs: Sequence[Node],
        outputs: Sequence[Node],
        name: str,
        mode: Mode,
        compiled: CompiledFunction[Any] | None = None,
        kept: Sequence[int] = (),
    ) -> None:
        self.inputs, self.outputs, self.name, self.mode = list(inputs), list(outputs), name, mode
        self.kept = list(kept)
        self._compiled = compiled
        self._keeping: dict[tuple[int, ...], _Program] = {}
        self._pullbacks: dict[Any, _Pullback] = {}
        self._lock = threading.RLock()
        self.floats = [carries_gradient(node) for node in self.outputs]
        self.labels = [f"input {node.name or i!r} of {name}" for i, node in enumerate(self.inputs)]

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        needed: tuple[int, ...] = ()
        if _torch().is_grad_enabled():
            needed = tuple(i for i, value in enumerate(tensors) if value.requires_grad)
        program = self.keeping(needed) if needed else self
        return _call_class().apply(program, *tensors)[: len(self.outputs)]

    def run(self, tensors: Sequence[Any]) -> list[Any]:
        """New tensors from tensors, without derivatives."""
        with self._lock:
            if self._compiled is None:
                self._compiled = function(self.inputs, self.outputs, name=self.name, mode=self.mode)
        arrays = [_as_array(value, label) for value, label in zip(tensors, self.labels, strict=True)]
        found = self._compiled(*arrays)
        leaves = found if self._compiled.graph.tree is None else self._compiled.graph.tree.leaves_of(found)
        return [_torch().from_numpy(np.asarray(leaf)) for leaf in leaves]

    def keeping(self, needed: tuple[int, ...]) -> _Program:
        """The program that also gives what its pullbacks for these inputs would else compute again."""
        with self._lock:
            if needed not in self._keeping:
                floats = [node for node, some in zip(self.outputs, self.floats, strict=True) if some]
                found = pullback(floats, list(map(_seed, floats)), [self.inputs[i] for i in needed])
                kept = _worth_keeping([g for g in found if g is not None], self.inputs)
                outputs = [*self.outputs, *(node for node in kept if node not in set(self.outputs))]
                at = {node: i for i, node in enumerate(outputs)}
                program = _Program(self.inputs, outputs, self.name, self.mode, None, [at[node] for node in kept])
                self._keeping[needed] = program if kept else self
            return self._keeping[needed]

    def pullback(self, needed: tuple[int, ...], given: tuple[int, ...]) -> _Pullback:
        """The gradients for the inputs `needed` from the cotangents of the outputs `given`."""
        with self._lock:
            if (needed, given) not in self._pullbacks:
                self._pullbacks[needed, given] = self._differentiated(needed, given)
            return self._pullbacks[needed, given]

    def _differentiated(self, needed: Sequence[int], given: Sequence[int]) -> _Pullback:
        outputs = [self.outputs[i] for i in given]
        seeds = list(map(_seed, outputs))
        found = pullback(outputs, seeds, [self.inputs[i] for i in needed])
        reached = [i for i, g in zip(needed, found, strict=True) if g is not None]
        gradients = [g for g in found if g is not None]
        known = {self.outputs[i]: new_input(self.outputs[i].type) for i in self.kept}
        gradients = ir.replace(gradients, known)
        program = _Program([*self.inputs, *known.values(), *seeds], gradients, f"{self.name}.gradient", self.mode)
        return _Pullback(program, reached)


class _Pullback(NamedTuple):
    """A program of inputs, of what was kept, and of cotangents; it gives the cotangents of the inputs `reached`."""

    program: _Program
    reached: list[int]


def _seed(node: Node) -> Node:
    """A new input for the cotangent of an output. Its sizes cannot be values that are computed, as those of others."""
    return new_input(node.type.with_shape([types.size() if _is_computed(dim) else dim for dim in node.type.shape]))


def _is_computed(dim: types.Dimension) -> bool:
    return any(atom.kind == "value" for atom in types.atoms(dim))


_CHEAP = ("constant", "size", "iota", "reshape", "concatenate")


def _worth_keeping(gradients: Sequence[Node], inputs: Collection[Node]) -> list[Node]:
    """Of what gradients need and the forward pass can compute, the results of loops, products and the like.

    A value that is computed from these element by element is not kept: to compute it again is faster than to store it.
    Nothing is kept if a loop asks for `checkpoint`: that would take the memory which the user wants to save.
    """
    nodes = ir.walk(gradients)
    known, forward = set(inputs), set[Node]()
    for node in nodes:  # arguments come first
        if node in known or (node.op is not ir.INPUT and all(arg in forward for arg in node.args)):
            forward.add(node)
    if any(node.params.get("checkpoint") not in (None, "all") for node in nodes):
        return []
    edge = [arg for node in nodes if node not in forward for arg in node.args if arg in forward]
    kept: dict[Node, None] = {}
    seen: set[Node] = set()
    while edge:
        node = edge.pop()
        if node in seen or node.op in ir.ORIGINS:
            continue
        seen.add(node)
        single = not node.several
        cheap = isinstance(node.op, Elementwise | View) or node.op.name in _CHEAP
        if single and not cheap and not any(map(_is_computed, node.type.shape)):
            kept[node] = None
        else:
            edge += node.args
    return sorted(kept, key=lambda node: node.serial)


@functools.cache
def _call_class() -> Any:
    """The class of calls, for autograd: a subclass of one of PyTorch's."""

    class Call(_torch().autograd.Function):  # type: ignore[misc]
        """One call of a program."""

        @staticmethod
        def forward(ctx: Any, program: _Program, *tensors: Any) -> Any:
            outputs = program.run(tensors)
            ctx.program = program
            ctx.save_for_backward(*tensors, *(outputs[i] for i in program.kept))
            ctx.set_materialize_grads(False)
            ctx.mark_non_differentiable(*(out for out, some in zip(outputs, program.floats, strict=True) if not some))
            return tuple(outputs)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            return None, *_cotangents(ctx.program, ctx.saved_tensors, ctx.needs_input_grad[1:], cotangents)

    return Call


def _cotangents(
    program: _Program, tensors: Sequence[Any], need: Sequence[bool], cotangents: Sequence[Any]
) -> list[Any]:
    """The cotangents of the inputs, from those of the outputs. None for inputs that need none."""
    results: list[Any] = [None] * len(program.inputs)
    needed = tuple(i for i, some in enumerate(need) if some)
    given = tuple(i for i, g in enumerate(cotangents) if g is not None and program.floats[i])
    if needed and given:
        gradient, reached = program.pullback(needed, given)
        found = gradient(*tensors, *(cotangents[i] for i in given)) if reached else ()
        for i, g in zip(reached, found, strict=True):
            results[i] = g
    return results
