"""Nodes: an op applied to nodes, with static parameters.

Nodes are immutable and interned: applying the same op to the same arguments gives the same object. So common
subexpressions are shared, and `is` compares nodes. User code is traced with the nodes themselves: `x + y` on two nodes
builds a third one.

Each op is defined in one place in `scanjit.ops`, and `OPS` finds it by its name. The ops without operands, and those
that all of the package relies on, are defined here.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import ClassVar, Literal, NoReturn, TypedDict, TypeGuard, Unpack

import numpy as np
from numpy.typing import DTypeLike

from scanjit import errors, types
from scanjit.arrays import array_of, check_unmasked
from scanjit.interned import Interned
from scanjit.kinds import kind_of
from scanjit.signatures import Array, Attribute, DType, OpFunction, Parameter, Params, Reference, Samples
from scanjit.symbol import Symbol
from scanjit.types import Atom, Dim, Dimension, Type

_FLOAT32 = np.dtype("float32")
OPS: dict[str, Op] = {}
"""The op table: every primitive by its name."""


class Traits(TypedDict, total=False):
    """The properties of ops that passes ask about. Each is an attribute of `Op`, with the default that is safe for any
    op."""

    is_branch: bool
    moves_data: bool
    never_fails: bool
    is_linear: bool
    by_parts: bool
    takes_halves: bool
    has_constant_slope: bool
    reads_memory: Literal["none", "first", "all"]
    goes_anywhere: bool
    zero_with: tuple[int, ...]
    aligned: OpFunction[dict[int, int]]
    of_dims: OpFunction[Dimension]


class Op:
    """A primitive with all that belongs to it: type rule, derivatives, batching rule, reference in NumPy, lowering, and
    samples for its tests.

    Parameters
    ----------
    name : its name in the table and in prints.
    infer : `infer(*types, **params) -> Type` (a tuple of types for an op with several results). Raises the error that
        the user sees, and calls `types.equate` for sizes that must agree.
    reference : `reference(*arrays, **params) -> array` (or a tuple of them), in plain NumPy. Dimensions in
        `params` arrive as ints.
    vjp : `vjp(g, y, *args, **params) -> tuple of (Node | None)`, one cotangent an argument, None where there is none.
        `g` is the cotangent of the result `y` (for several results: tuples, with None in `g`). None for ops
        without a derivative (their results count as constants).
    selective_vjp : `selective_vjp(node, g, needed) -> list of (Node | None)`, instead of `vjp`, for an op that computes
        less if not all cotangents are needed. `needed` has a bool for each operand.
    connected : `connected(node, results, through) -> list of Node`: the operands that some of an op's several results
        depend on. By default, each result depends on all operands.
    jvp : `jvp(tangents, y, *args, **params) -> Node | None`; tangents are None where zero. Without this rule, a linear
        op is applied to the tangents, and the vjp of any other op is transposed.
    batch : `batch(args, batched, size, **params) -> (Node, bool)`. Batched arguments have their batch axis first;
        so has the result if it is batched. For several results: a list of such pairs.
    batch_params : `batch_params(size, **params) -> params`, instead of `batch`, for an op that computes a batch itself
        if all of its operands have the batch axis first: the parameters that it then needs. Without either rule, a
        batch is a loop over the examples.
    samples : `samples(rng, dtype) -> iterable of (args, params)`: concrete arrays inside the op's domain, from which
        the tests are generated.
    of_complex : `of_complex(*args, **params) -> Node`: the result for complex operands, made of their parts (see
        `COMPLEX`). By default, ops that are linear or work `by_parts` are applied to both parts, and others refuse.
    dtypes : the dtypes that tests sample.
    doc : one line, for the generated documentation.
    **traits : what passes ask about the op, instead of comparing its name. A subclass gives the traits of its ops.

    Attributes
    ----------
    is_branch : it runs one of the two halves of its graph, as its first operand says.
    moves_data : its elements need no arithmetic. They are copied from the operands (`reshape`), count up (`iota`) or
        are stored in the node (a constant).
    never_fails : no values of its operands make it raise an error. False also where nobody has thought about it.
    is_linear : `f(a + b) = f(a) + f(b)`, where all operands are added at once.
    by_parts : of complex operands, it does the same with the real and with the imaginary parts. The other operands (an
        index, a condition) are the same for both.
    takes_halves : it does no arithmetic with floats of 16 bits, so it takes them as they are. Any other op is applied
        to them as float32, and its result is rounded. True for ops that move data or work `by_parts`.
    has_constant_slope : its derivatives do not depend on the values of its operands that have derivatives, as for
        `where`. Linear ops have constant slopes too.
    reads_memory : which operands it reads as arrays in memory, rather than as values next to it: "none", "first" (as
        `gather`) or "all" (as `contract`).
    goes_anywhere : one loop nest can compute it into any place, for instance into its part of a concatenation.
    zero_with : the positions of the operands that make the result zero if they are zero: `(0, 1)` for `mul`, `(0,)` for
        `div`.
    aligned : `aligned(position, operand, result, **params)`, maps axes of one operand to axes of the result, given the
        types of both. `{0: 1}` says that entry `i` of axis 1 of the result is computed from entry `i` of axis 0 of that
        operand alone. None for ops without such a rule.
    of_dims : the op as a function of dimensions, for ops that users may compute sizes with (`add`); None for others.
    """

    cast: ClassVar[Op]
    """The op that changes dtypes; `scanjit.ops.promotion` installs it."""
    is_branch: bool = False
    moves_data: bool = False
    never_fails: bool = False
    is_linear: bool = False
    by_parts: bool = False
    takes_halves: bool = False
    has_constant_slope: bool = False
    reads_memory: Literal["none", "first", "all"] = "none"
    goes_anywhere: bool = False
    zero_with: tuple[int, ...] = ()
    aligned: OpFunction[dict[int, int]] | None = None
    of_dims: OpFunction[Dimension] | None = None

    def __init__(
        self,
        name: str,
        *,
        infer: OpFunction[Type | tuple[Type, ...]],
        reference: Reference,
        vjp: OpFunction[tuple[Node | None, ...]] | None = None,
        selective_vjp: Callable[[Node, Sequence[Node | None], Sequence[bool]], list[Node | None]] | None = None,
        connected: Callable[[Node, Collection[int], Callable[[Node], bool]], list[Node]] | None = None,
        jvp: OpFunction[Node | tuple[Node | None, ...] | None] | None = None,
        batch: OpFunction[tuple[Node, bool] | list[tuple[Node, bool]]] | None = None,
        batch_params: OpFunction[Params] | None = None,
        samples: Callable[[np.random.Generator, str], Samples] | None = None,
        of_complex: OpFunction[Node] | None = None,
        dtypes: Sequence[str] = ("float64", "float32"),
        doc: str = "",
        **traits: Unpack[Traits],
    ) -> None:
        if name in OPS:
            raise ValueError(f"two ops are named {name}")
        self.name, self.infer, self.reference = name, infer, reference
        if selective_vjp is not None:
            needs = selective_vjp
            vjp = lambda g, y, *operands, **params: tuple(needs(y[0].args[0], g, [True] * len(operands)))
        self.vjp, self.selective_vjp, self.connected = vjp, selective_vjp, connected
        self.jvp, self.batch, self.batch_params = jvp, batch, batch_params
        self.samples, self.dtypes, self.doc, self.of_complex = samples, dtypes, doc, of_complex
        vars(self).update(traits)
        self.takes_halves = traits.get("takes_halves", self.moves_data or self.by_parts)
        OPS[name] = self

    def __call__(self, *args: Node, **params: Parameter) -> Node:
        """The node that applies this op to nodes. Dimensions in `params` may depend on values of nodes."""
        if any([arg.op is COMPLEX for arg in args]):
            return self._applied_to_complex(args, params)
        if not self.takes_halves and any([not arg.several and arg.type.is_half for arg in args]):
            return self._applied_to_halves(args, params)
        applied = AppliedOp.of(self, params, len(args))
        return interned(applied, applied.arguments(args))

    def _applied_to_complex(self, args: tuple[Node, ...], params: Params) -> Node:
        self.check_takes_complex(args)
        if self.of_complex is not None:
            return self.of_complex(*args, **params)
        if self.is_linear and not all(arg.op is COMPLEX for arg in args):
            raise errors.InternalError(f"{self.name} takes operands of one dtype", got=args)
        real, imaginary = ([arg.args[i] if arg.op is COMPLEX else arg for arg in args] for i in (0, 1))
        return COMPLEX(self(*real, **params), self(*imaginary, **params))

    def _applied_to_halves(self, args: tuple[Node, ...], params: Params) -> Node:
        """The op on float32, and its result rounded again."""
        cast = self.cast
        wide = [cast(arg, dtype=_FLOAT32) if not arg.several and arg.type.is_half else arg for arg in args]
        halves = {arg.dtype for arg, new in zip(args, wide, strict=True) if new is not arg}
        found = self(*wide, **params)
        return cast(found, dtype=halves.pop()) if not found.several and found.dtype == _FLOAT32 else found

    def check_takes_complex(self, got: object) -> None:
        """Raise an error unless this op is defined for complex numbers."""
        if self.of_complex is None and not (self.is_linear or self.by_parts):
            raise errors.DtypeError(
                f"{self.name} is not defined for complex numbers",
                got=got,
                expected="real numbers",
                fix="take sj.abs, sj.angle, sj.real or sj.imag of them; complex numbers have no order",
            )

    def prepare(self, values: Sequence[object]) -> Sequence[Node]:
        """The values that a user gave, as nodes."""
        return [as_node(value) for value in values]

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return _op_by_name, (self.name,)


def _op_by_name(name: str) -> Op:
    return OPS[name]


class Node(Symbol["Node"]):
    """An op applied to arguments. `args[:arity]` are the op's own operands. Behind them come the nodes whose values
    the dimensions in its parameters use (see `dim_nodes`). So a walk over `args` meets everything that a node
    depends on.

    Examples
    --------
    >>> from scanjit.tensor import tanh, tensor
    >>> x = tensor(("T", 3), name="x")
    >>> y = tanh(x) + 1
    >>> y, y.op.name, y.type
    (<add: float64(T, 3)>, 'add', float64(T, 3))
    >>> y is tanh(x) + 1
    True
    """

    __slots__ = (
        "__weakref__", "applied", "args", "arity", "base", "dim_ref", "is_closed", "op", "operands", "params", "serial",
        "settled", "several", "type", "types", "where",
    )  # fmt: skip

    applied: AppliedOp
    op: Op
    args: tuple[Node, ...]
    arity: int
    operands: tuple[Node, ...]
    """The op's own arguments."""
    params: Params
    type: Type
    """The type of the value. A node with several results has none: its parts have."""
    types: tuple[Type, ...]
    """The types of all results."""
    several: bool
    """Whether the op gives a tuple of results, as a scan does (even a tuple of one). `PART` nodes then pick its
    values."""
    where: str
    serial: int
    is_closed: bool
    """Whether the node depends on no origin. It then depends on constants and named sizes alone, and means the same in
    every graph."""
    dim_ref: weakref.ref[Atom] | None  # see `dim_atom`
    settled: object  # stands for a table of rewrite rules none of which changes the node: see `scanjit.rewrite.engine`
    base: Node | None  # `x`, if this node is `x[...]`: see `scanjit.tensor.indexing`

    __array_priority__ = 1000

    @property
    def dim_atom(self) -> Atom | None:
        """The atom that stands for this node's value in dimensions; None if no dimension uses the value."""
        return None if self.dim_ref is None else self.dim_ref()

    @property
    def dtype(self) -> DType:
        """The dtype of the value."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.type.shape)

    @property
    def name(self) -> str | None:
        """The name of an input or a shared variable."""
        return self.params.get("name")

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        label = self.name or self.op.name
        return f"<{label}: {', '.join(map(str, self.types))}>"

    def __bool__(self) -> NoReturn:
        raise errors.ArgumentError(
            "the truth value of a symbol is not known while a function is built",
            got=repr(self),
            fix="use sj.where(condition, a, b) for if, a & b for and, np.maximum(a, b) for max, sj.while_loop for "
            "while, or sj.until(condition) to end a scan; for values, call a compiled function (sj.jit, sj.function)",
        )

    def __format__(self, spec: str) -> str:
        if spec:
            raise errors.ArgumentError(
                "a symbol has no value to print", got=repr(self), fix="sj.print_(x) prints it while the function runs"
            )
        return str(self)

    def __pos__(self) -> Node:
        return self

    # `scanjit.ops.operators` installs operators; `scanjit.tensor` installs methods, indexing and the array protocol.


def apply(op: Op, *values: object) -> Node:
    """Apply an op to nodes, arrays and Python scalars, promoted as the op's `prepare` says."""
    return op(*op.prepare(values))


def is_symbol(value: object) -> TypeGuard[Attribute]:
    """Whether a value is a node, or a shared variable, which stands for one."""
    return isinstance(value, Node) or hasattr(value, "__scanjit_node__")


def is_number(value: object) -> TypeGuard[bool | int | float | complex]:
    """Whether a value is a Python scalar. Python scalars are weak: `x * 2` has the dtype of `x`."""
    return isinstance(value, bool | int | float | complex) and not isinstance(value, np.generic)


def as_node(value: object) -> Node:
    """A node from a node, a shared variable, an array or a number."""
    if isinstance(value, Node):
        return value
    if is_symbol(value):
        return value.__scanjit_node__()
    array = array_of(value)
    if array.dtype == object:
        raise errors.ArgumentError(
            "this is neither a symbol nor something to make an array of",
            got=f"{value!r} ({type(value).__name__})",
            fix=_in_place_of(value),
        )
    check_unmasked(value, "a constant")
    return constant(array)


def _in_place_of(value: object) -> str:
    """The advice for a value that stands in place of a symbol: for a layer, use its output; for a function, its
    result."""
    if hasattr(value, "get_output_for"):
        return "of a layer, take get_output(layer), or its input_var"
    if callable(value) and not isinstance(value, type):
        return "call it with symbols and give its result, such as f(x); for its derivatives: sj.value_and_grad(f)"
    return ""


class AppliedOp:
    """An op with its parameters, which a node applies to its arguments. Interned, as nodes are.

    Parameters
    ----------
    op, params : the op, and its parameters.
    arity : how many operands it has.
    atoms : the atoms of the dimensions in `params`.
    sizes : the nodes whose values these dimensions use.
    """

    __slots__ = ("__weakref__", "arity", "atoms", "op", "params", "sizes")

    def __init__(self, op: Op, params: Params, arity: int) -> None:
        self.op, self.params, self.arity = op, params, arity
        self.atoms = tuple(dict.fromkeys([atom for value in params.values() for atom in _param_atoms(value)]))
        self.sizes = _nodes_of(self.atoms)

    @classmethod
    def of(cls, op: Op, params: Params, arity: int) -> AppliedOp:
        """The op with these parameters, the same object for equal ones."""
        key = (op, arity, *[(name, _freeze(value)) for name, value in params.items()])
        return _parametrized.get(key) or _parametrized.known(key, cls(op, params, arity))

    def arguments(self, operands: tuple[Node, ...]) -> tuple[Node, ...]:
        """The operands, and the `sizes` that are not among them."""
        if not self.sizes:
            return operands
        given = set(operands)
        return (*operands, *[node for node in self.sizes if node not in given])


_serial = itertools.count()
_nodes: Interned[tuple[object, ...], Node] = Interned()
_parametrized: Interned[tuple[object, ...], AppliedOp] = Interned()


def _freeze(value: object) -> object:
    """A hashable key of a parameter."""
    if type(value) is int:  # as most are
        return ("int", value)
    if isinstance(value, tuple | list):
        return (type(value).__name__, *map(_freeze, value))
    if isinstance(value, dict):
        return tuple((k, _freeze(v)) for k, v in value.items())
    if isinstance(value, float | int | bool):
        return (type(value).__name__, value)
    return value


def interned(applied: AppliedOp, args: tuple[Node, ...], like: Node | None = None, where: str | None = None) -> Node:
    """The node that applies an op with its parameters to arguments. `like` is a node that does the same to operands of
    the same types. The new node has its types, and its location if `where` gives no other."""
    key = (applied, *map(id, args))
    found = _nodes.get(key)
    if found is not None:
        return found
    op = applied.op
    node = Node.__new__(Node)
    node.applied, node.op, node.args, node.arity, node.params = applied, op, args, applied.arity, applied.params
    node.operands = args[: node.arity]
    if like is None:
        node.where = errors.user_location()
        node.types, node.several = _inferred(op, node.operands, node.params)
    else:
        node.where, node.types, node.several = where or like.where, like.types, like.several
    if not node.several:
        node.type = node.types[0]
    node.serial, node.dim_ref, node.base, node.settled = next(_serial), None, None, None
    node.is_closed = op not in ORIGINS and all([arg.is_closed for arg in args])
    return _nodes.known(key, node)


def inferred_types(node: Node) -> tuple[Type, ...]:
    """Infer the types of a node's results again. Callers do this inside `types.collecting`, to collect the
    conditions."""
    return _inferred(node.op, node.operands, node.params)[0]


def _inferred(op: Op, operands: Iterable[Node], params: Params) -> tuple[tuple[Type, ...], bool]:
    """The types of the results of an op, and whether it gives several."""
    found = op.infer(*[node.types if node.several else node.type for node in operands], **params)
    return (found, True) if isinstance(found, tuple) else ((found,), False)


def dim_nodes(params: Params) -> tuple[Node, ...]:
    """The nodes whose values the dimensions in `params` use."""
    return _nodes_of([atom for value in params.values() for atom in _param_atoms(value)])


def _nodes_of(atoms: Iterable[Atom]) -> tuple[Node, ...]:
    return tuple({atom.node: None for atom in atoms if atom.kind == "value"})


def own_atoms(node: Node) -> list[Atom]:
    """The atoms of the dimensions in a node's types and parameters, not those in the graph of a loop or branch."""
    return [*[atom for type_ in node.types for atom in type_.atoms], *node.applied.atoms]


def _param_atoms(value: object) -> Iterable[Atom]:
    if isinstance(value, Dim):
        return types.atoms(value)
    if isinstance(value, Type):
        return value.atoms
    if isinstance(value, tuple | list):
        return [atom for item in value if type(item) is not int for atom in _param_atoms(item)]
    return ()


def _leaf(name: str, infer: OpFunction[Type], doc: str) -> Op:
    def reference(**params: Parameter) -> Array:
        raise errors.InternalError(f"{name} has no value of its own")

    return Op(name, infer=infer, reference=reference, doc=doc)


INPUT = _leaf("input", lambda *, type, **_: type.in_memory, "a value that a function is called with")
SHARED = _leaf("shared", lambda *, variable, name: variable.type.in_memory, "the value of a shared variable")
BOUND = _leaf("bound", lambda *, type, **_: type, "an input of the graph inside a scan, known by its position")
ORIGINS = (INPUT, SHARED, BOUND)
CONSTANT = Op(
    "constant",
    infer=lambda *, data: Type(data.array.dtype, data.array.shape),
    reference=lambda *, data: data.array,
    doc="an array that is known",
    moves_data=True,
    never_fails=True,
)
PART = Op(
    "part",
    infer=lambda whole, *, index: whole[index],
    reference=lambda whole, *, index: whole[index],
    doc="one result of an op that has several",
    takes_halves=True,
)


def _complex_infer(real: Type, imaginary: Type, **_: Parameter) -> Type:
    if real is not imaginary or not real.kind.floating:
        raise errors.InternalError("the parts of complex numbers are floats of one type", got=(real, imaginary))
    return Type(np.result_type(real.dtype, np.complex64), real.shape)


COMPLEX = Op(
    "complex",
    infer=_complex_infer,
    reference=lambda real, imaginary, **_: real + 1j * imaginary,
    doc="complex numbers, from their real and imaginary parts",
)
"""A symbol of complex numbers is this op on its two parts. No node has it as an argument: an op that is applied to it
is applied to the parts (`Op.of_complex`), and loops, branches and functions see a structure of two tensors. So all that
works on graphs knows real numbers alone. The parameter `name` is that of an input or a shared variable."""


class Data:
    """An array as a parameter: compared by dtype, shape and bytes if small, else by identity."""

    __slots__ = ("array", "key")

    def __init__(self, array: Array) -> None:
        self.array = np.array(array, order="C")
        self.array.setflags(write=False)
        small = self.array.nbytes <= 4096
        self.key = (self.array.dtype, self.array.shape, self.array.tobytes() if small else id(self))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Data) and self.key == other.key

    def __reduce__(self) -> tuple[object, ...]:
        return Data, (self.array,)  # the key is of this process

    def __repr__(self) -> str:
        return str(self.array.tolist()) if self.array.size <= 8 else f"array of shape {self.array.shape}"


def constant(value: object, dtype: DTypeLike | None = None) -> Node:
    """A node that holds an array."""
    if type(value) not in (bool, int, float) or not value:  # 0.0 and -0.0 are equal, and not the same
        return _constant(value, dtype)
    key = type(value), value, dtype
    found = _numbers.get(key)
    return _numbers.known(key, _constant(value, dtype)) if found is None else found


_numbers: Interned[tuple[object, ...], Node] = Interned()
"""The constants that were made of numbers: a graph has the same ones again and again."""


def _constant(value: object, dtype: DTypeLike | None) -> Node:
    try:
        array = np.asarray(value, dtype=None if dtype is None else np.dtype(dtype))
    except OverflowError:
        raise errors.DtypeError("this Python integer does not fit the dtype", got=value, expected=dtype) from None
    check_unmasked(value, "a constant")
    array = array.astype(types.dtype_of(array.dtype), copy=False)
    if kind_of(array.dtype).is_complex:
        return COMPLEX(constant(array.real), constant(array.imag))
    return CONSTANT(data=Data(array))


def new_input(type_: Type, name: str | None = None) -> Node:
    """A new input, different from all others. For complex numbers, it is the array of floats that holds them."""
    return INPUT(type=type_, name=name, serial=next(_serial))


def declared(origin: Node) -> Type:
    """The type that an input or a shared variable has for users: its own, or one of complex numbers."""
    return origin.params["variable"].type if origin.op is SHARED else origin.params["type"]


def parts(node: Node) -> tuple[Node, ...]:
    """The results of an op that has several."""
    return tuple(PART(node, index=i) for i in range(len(node.types)))
