"""Programs for other libraries that differentiate: outputs as a function of inputs, and their derivatives, again as
programs. Each is compiled when it is first run. PyTorch, JAX and PyTensor call them (`scanjit.torch`...)."""

from __future__ import annotations

import importlib
from abc import ABC
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import Node, new_input
from scanjit.loops.structure import Tree
from scanjit.ops import Elementwise
from scanjit.ops.batch import batch_or_loop
from scanjit.ops.chain import carries_gradient, pullback, pushforward
from scanjit.ops.shape import CONCATENATE, IOTA, RESHAPE
from scanjit.ops.stretch import over_batch
from scanjit.ops.view import View
from scanjit.runtime.decoding import decode
from scanjit.runtime.encoding import Encoded, encode
from scanjit.runtime.function import CompiledFunction, function
from scanjit.runtime.function_graph import Mode, check_mode
from scanjit.runtime.locks import new_lock
from scanjit.tensor import tensor
from scanjit.types import Type
from scanjit.walks import top_down


class BridgedFunction:
    """Outputs as a function of inputs, and its derivatives.

    Parameters
    ----------
    inputs, outputs, name, mode : those of the function, as for `scanjit.function`.
    compiled : the function, if it is compiled already.
    kept : positions of outputs that pullbacks read instead of computing them again.
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
        self._derived: dict[tuple[Any, ...], Any] = {}
        self._lock = new_lock()
        self.floats = [carries_gradient(node) for node in self.outputs]
        self.labels = [f"input {node.name or i!r} of {name}" for i, node in enumerate(self.inputs)]

    def __reduce__(self) -> tuple[Any, ...]:
        nodes = encode([*self.inputs, *self.outputs])
        return _restored, (nodes, len(self.inputs), self.name, self.mode, self.kept)

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """New arrays from arrays."""
        with self._lock:
            if self._compiled is None:
                self._compiled = function(self.inputs, self.outputs, name=self.name, mode=self.mode)
        found = self._compiled(*arrays)
        leaves = found if self._compiled.graph.tree is None else self._compiled.graph.tree.leaves_of(found)
        return [np.asarray(leaf) for leaf in leaves]

    def _once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """A program that is derived from this one, by key. It is made when it is first asked for."""
        with self._lock:
            if key not in self._derived:
                self._derived[key] = make()
            return self._derived[key]

    def keeping(self, needed: tuple[int, ...]) -> BridgedFunction:
        """The program whose further outputs are the values that its pullbacks for these inputs would otherwise compute
        again."""
        return self._once(("keeping", needed), lambda: self._keeping(needed))

    def _keeping(self, needed: Sequence[int]) -> BridgedFunction:
        floats = [node for node, some in zip(self.outputs, self.floats, strict=True) if some]
        found = pullback(floats, list(map(seed, floats)), [self.inputs[i] for i in needed])
        kept = _worth_keeping([g for g in found if g is not None], self.inputs)
        outputs = [*self.outputs, *(node for node in kept if node not in set(self.outputs))]
        at = {node: i for i, node in enumerate(outputs)}
        program = BridgedFunction(self.inputs, outputs, self.name, self.mode, None, [at[node] for node in kept])
        return program if kept else self

    def pullback(self, needed: tuple[int, ...], given: tuple[int, ...]) -> Derivative:
        """The gradients for the inputs `needed`, from the cotangents of the outputs `given`. Its program takes the
        inputs, the kept values, and the cotangents."""
        return self._once(("pullback", needed, given), lambda: self._pullback(needed, given))

    def _pullback(self, needed: Sequence[int], given: Sequence[int]) -> Derivative:
        outputs = [self.outputs[i] for i in given]
        seeds = list(map(seed, outputs))
        found = pullback(outputs, seeds, [self.inputs[i] for i in needed])
        return self._derivative("gradient", seeds, needed, found)

    def tangent(self, needed: tuple[int, ...]) -> Derivative:
        """The tangents of outputs from those of the inputs `needed`. Its program takes the inputs, what was kept, and
        the tangents."""
        return self._once(("tangent", needed), lambda: self._tangent(needed))

    def _tangent(self, needed: Sequence[int]) -> Derivative:
        seeds = [seed(self.inputs[i]) for i in needed]
        tangents: dict[Node, Node | None] = dict.fromkeys(self.inputs)
        found = pushforward(self.outputs, tangents | {self.inputs[i]: g for i, g in zip(needed, seeds, strict=True)})
        return self._derivative("tangent", seeds, range(len(self.outputs)), found)

    def _derivative(
        self, name: str, seeds: Sequence[Node], positions: Sequence[int], found: Sequence[Node | None]
    ) -> Derivative:
        reached = [i for i, g in zip(positions, found, strict=True) if g is not None]
        known = {self.outputs[i]: new_input(self.outputs[i].type) for i in self.kept}
        wanted = ir.replace([g for g in found if g is not None], known)
        return Derivative(
            BridgedFunction([*self.inputs, *known.values(), *seeds], wanted, f"{self.name}.{name}", self.mode), reached
        )

    def batched(self, over: tuple[bool, ...]) -> BridgedFunction:
        """The program over a batch. The batch is the first axis of all outputs, and of the inputs for which `over` is
        true."""
        return self._once(("batched", over), lambda: self._batched(over))

    def _batched(self, over: Sequence[bool]) -> BridgedFunction:
        size = types.size()
        rows = {
            x: new_input(x.type.with_shape((size, *x.type.shape)))
            for x, some in zip(self.inputs, over, strict=True)
            if some
        }
        found = [over_batch(*pair, size) for pair in batch_or_loop(self.outputs, rows, size)]
        return BridgedFunction([rows.get(x, x) for x in self.inputs], found, f"{self.name}.batch", self.mode)

    def shapes(self, given: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The shapes of the outputs for inputs of these shapes."""
        sizes = {}
        for node, shape in zip(self.inputs, given, strict=True):
            for dim, size in zip(node.type.shape, shape, strict=True):
                atom = types.as_atom(dim)
                if atom is not None:
                    sizes[atom] = size
        try:
            return [tuple(types.evaluate(dim, sizes) for dim in node.type.shape) for node in self.outputs]
        except KeyError:
            raise errors.ShapeError(
                f"the size of a result of {self.name} depends on values",
                fix="return arrays whose sizes follow from those of the arguments",
            ) from None


def _restored(encoded: Encoded, inputs: int, name: str, mode: Mode, kept: list[int]) -> BridgedFunction:
    nodes = decode(encoded)
    return BridgedFunction(nodes[:inputs], nodes[inputs:], name, mode, None, kept)


class Derivative(NamedTuple):
    """A program that computes derivatives, and the positions of those that it computes: all that are not zero."""

    program: BridgedFunction
    reached: list[int]


class MadeProgram(NamedTuple):
    """The program of a function, the structure of its result, and the types that its inputs have for users.

    The program has tensors of floats in place of complex tensors. Their last axis holds the two parts.
    """

    program: BridgedFunction
    tree: Tree
    types: list[Type]

    @property
    def is_complex(self) -> bool:
        """Whether it takes or returns complex numbers."""
        return any(self.tree.stored()) or any(type_.kind.is_complex for type_ in self.types)

    def returned(self, outputs: Iterable[Any], as_complex: Callable[[Any], Any]) -> Any:
        """The result of the function, from the outputs of the program (further outputs may follow these). `as_complex`
        makes complex numbers of pairs of floats."""
        pairs = zip(self.tree.stored(), outputs, strict=False)
        return self.tree.whole().unflatten([as_complex(x) if is_complex else x for is_complex, x in pairs])


def made_of(f: CompiledFunction[Any], library: str) -> MadeProgram:
    """The program of a compiled function."""
    if f.graph.updates:
        updated = ", ".join(variable.name or "unnamed" for variable, _ in f.graph.updates)
        raise errors.ArgumentError(
            f"{f.name} updates shared variables, which a function for {library} cannot do",
            got=updated,
            fix="return the new values as outputs, and give the old ones as inputs",
        )
    graph, declared = f.graph, list(map(ir.declared, f.graph.inputs))
    if graph.tree is None:
        raise errors.ArgumentError(f"{f.name} has no outputs", fix="compile a function with an output")
    made = MadeProgram(BridgedFunction(graph.inputs, graph.outputs, f.name, f.mode, f), graph.tree, declared)
    if not made.is_complex:
        return made
    stored = [new_input(node.type, node.name) for node in graph.inputs]
    outputs = ir.replace(graph.outputs, dict(zip(graph.inputs, stored, strict=True)))
    return made._replace(program=BridgedFunction(stored, outputs, f.name, f.mode))


class ArgumentKind(NamedTuple):
    """The rank and the dtype of an argument. If it is weak, as Python numbers are, and a float, it takes the dtype of
    the floats among the other arguments."""

    ndim: int
    dtype: str
    weak: bool


class BridgedFunctions:
    """The programs of a function that another library calls: one for a compiled function, and one for each kind of
    arguments for a function of symbols.

    Parameters
    ----------
    f, mode : see `scanjit.torch.as_function`.
    library : the library whose function it becomes, for errors.
    """

    def __init__(self, f: Callable[..., Any], mode: Mode, library: str) -> None:
        check_mode(mode)
        if not callable(f):
            raise errors.ArgumentError(f"only a function can become a function for {library}", got=repr(f))
        self.f, self.library = f, library
        self.name = getattr(f, "__name__", "function")
        self.mode = f.mode if isinstance(f, CompiledFunction) else mode
        self.compiled = made_of(f, library) if isinstance(f, CompiledFunction) else None
        self._traced: dict[Any, MadeProgram] = {}
        self._lock = new_lock()

    def by_position(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments of a call in the order of inputs. Only a compiled function knows its inputs by names."""
        if isinstance(self.f, CompiledFunction):
            return self.f.by_position(args, named)
        if named:
            raise errors.ArgumentError(
                f"{self.name} is a function of symbols: it takes arguments by position", got=", ".join(named)
            )
        return args

    def traced(
        self,
        kinds: tuple[ArgumentKind, ...],
        join: Callable[..., Any] | None = None,
        key: Any = None,
        default: str | None = None,
    ) -> MadeProgram:
        """The program for arguments of these kinds. `join` makes the arguments of the function from the symbols, if the
        function takes nested ones; `key` is different for each join. `default` is the dtype of weak floats where there
        are no other floats."""
        with self._lock:
            if (kinds, key) not in self._traced:
                given = [types.dtype_of(kind.dtype) for kind in kinds]
                dtypes = types.of_arguments(
                    given, [kind.weak for kind in kinds], None if default is None else types.dtype_of(default)
                )
                symbols = [tensor((None,) * kind.ndim, dtype) for kind, dtype in zip(kinds, dtypes, strict=True)]
                outputs = self.f(*(symbols if join is None else join(symbols)))
                f = function(symbols, outputs, name=self.name, mode=self.mode)
                self._traced[kinds, key] = made_of(f, self.library)
            return self._traced[kinds, key]

    def made(self) -> list[MadeProgram]:
        """All programs that have been made."""
        return [*self._traced.values()] if self.compiled is None else [self.compiled]

    def check(self, given: Sequence[Any], made: MadeProgram, fix: Callable[[Node], str] = lambda node: "") -> None:
        """Check that arrays have the ranks and dtypes of the inputs. `fix` is the advice in the error if one has
        not."""
        for x, node in zip(given, made.program.inputs, strict=True):
            if x.dtype != node.dtype or x.ndim != node.ndim:
                raise errors.ArgumentError(
                    f"an argument of {self.name} has another type",
                    got=f"{x.dtype}, {x.ndim} axes",
                    expected=node.type,
                    fix=fix(node),
                )


class ForeignFunction(ABC):
    """The base of the functions of other libraries that are made of functions of ours."""

    def __init__(self, f: Callable[..., Any], mode: Mode, library: str) -> None:
        self._programs = BridgedFunctions(f, mode, library)
        self.__name__ = self._programs.name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._programs.f, self._programs.mode)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}: {self._programs.f!r}>"


def imported(library: str, *names: str) -> Any:
    """The first of some modules of a library, all of which are imported now."""
    try:
        module, *_ = [importlib.import_module(name) for name in names]
    except ImportError as error:
        raise ImportError(f"scanjit.{names[0]} needs {library}: pip install 'scanjit[{names[0]}]'") from error
    return module


def in_memory(values: Any, type_: Type, namespace: Any) -> Any:
    """The values of an input as our programs take them: complex numbers as pairs of floats, which `namespace` makes."""
    if not type_.kind.is_complex:
        return values
    return namespace.stack([namespace.real(values), namespace.imag(values)], axis=-1)


def is_weak(value: Any) -> bool:
    """Whether a value takes the dtype of the input that it is given for."""
    return isinstance(value, bool | int | float | complex | list | tuple)


def seed(node: Node) -> Node:
    """A new input for the derivative of a node. Unlike other inputs, its sizes cannot be computed values."""
    return new_input(node.type.with_shape([types.size() if _is_computed(dim) else dim for dim in node.type.shape]))


def _is_computed(dim: types.Dimension) -> bool:
    return any(atom.kind == "value" for atom in types.atoms(dim))


_CHEAP = (ir.CONSTANT, ir.SIZE, IOTA, RESHAPE, CONCATENATE)


def _worth_keeping(gradients: Sequence[Node], inputs: Collection[Node]) -> list[Node]:
    """The nodes that gradients need, that the forward pass can compute, and that are worth keeping: results of loops,
    products and the like.

    A value that is computed from these element by element is not kept: to compute it again is faster than to store it.
    Nothing is kept if a loop asks for `checkpoint`, as that would take the memory which the user wants to save.
    """
    nodes = ir.walk(gradients)
    known, forward = set(inputs), set[Node]()
    for node in nodes:  # arguments come first
        if node in known or (node.op is not ir.INPUT and all(arg in forward for arg in node.args)):
            forward.add(node)
    if any(node.params.get("checkpoint") not in (None, "all") for node in nodes):
        return []
    edge = [arg for node in nodes if node not in forward for arg in node.args if arg in forward]
    kept: set[Node] = set()
    for node in top_down(edge, lambda node: () if node in kept or node.op in ir.ORIGINS else node.args):
        cheap = isinstance(node.op, Elementwise | View) or node.op in (*_CHEAP, *ir.ORIGINS)
        if not node.several and not cheap and not any(map(_is_computed, node.type.shape)):
            kept.add(node)
    return sorted(kept, key=lambda node: node.serial)
