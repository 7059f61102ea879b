"""The intermediate representation: `Op`, `Node`, `Graph`.

A node is an op applied to nodes, with static parameters. Nodes are immutable and interned: applying the same op to the
same arguments gives the same object. So common subexpressions are shared, and `is` compares nodes. User code is traced
with the nodes themselves: `x + y` on two nodes builds a third one.

Each op is defined in one place in `scanjit.ops`, and `OPS` finds it by its name.
"""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import ClassVar, Literal, NoReturn, TypedDict, TypeGuard, Unpack

import numpy as np
from numpy.typing import DTypeLike

from scanjit import errors, types
from scanjit.interned import Interned
from scanjit.kinds import check_unmasked, kind_of
from scanjit.signatures import Array, Attribute, DType, OpFunction, Parameter, Params, Reference, Samples, Value
from scanjit.symbol import Symbol
from scanjit.types import Atom, Dim, Dimension, Type
from scanjit.walks import bottom_up

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
        return _intern(applied, applied.arguments(args))

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
        "__weakref__", "applied", "args", "arity", "base", "dim_ref", "is_closed", "op", "params", "serial",
        "settled", "several", "type", "types", "where",
    )  # fmt: skip

    applied: AppliedOp
    op: Op
    args: tuple[Node, ...]
    arity: int
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
    def operands(self) -> tuple[Node, ...]:
        """The op's own arguments."""
        return self.args[: self.arity]

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

    # `scanjit.ops.elementwise` installs operators; `scanjit.tensor` installs methods, indexing and the array protocol.


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
    try:
        array = np.asarray(value)
    except Exception as error:
        if errors.from_outside(error):
            raise
        array = np.asarray(None)
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
    sizes : the nodes whose values the dimensions in `params` use.
    """

    __slots__ = ("__weakref__", "arity", "op", "params", "sizes")

    def __init__(self, op: Op, params: Params, arity: int) -> None:
        self.op, self.params, self.arity, self.sizes = op, params, arity, dim_nodes(params)

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
    if isinstance(value, tuple | list):
        return (type(value).__name__, *map(_freeze, value))
    if isinstance(value, dict):
        return tuple((k, _freeze(v)) for k, v in value.items())
    if isinstance(value, float | int | bool):
        return (type(value).__name__, value)
    return value


def _intern(applied: AppliedOp, args: tuple[Node, ...], like: Node | None = None, where: str | None = None) -> Node:
    """The node that applies an op with its parameters to arguments. `like` is a node that does the same to operands of
    the same types. The new node has its types, and its location if `where` gives no other."""
    key = (applied, *map(id, args))
    found = _nodes.get(key)
    if found is not None:
        return found
    op = applied.op
    node = Node.__new__(Node)
    node.applied, node.op, node.args, node.arity, node.params = applied, op, args, applied.arity, applied.params
    if like is None:
        node.where = errors.user_location()
        node.types, node.several = _inferred(op, args[: node.arity], node.params)
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
    atoms = [atom for value in params.values() for atom in _param_atoms(value)]
    return tuple({atom.node: None for atom in atoms if atom.kind == "value"})


def map_dims(value: Parameter, change: Callable[[Dimension], Dimension]) -> Parameter:
    """A copy of a parameter with every dimension in it changed by a function."""
    if isinstance(value, Dim):
        return change(value)
    if isinstance(value, Type):
        return Type(value.dtype, tuple(map_dims(d, change) for d in value.shape))
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(map_dims(item, change) for item in value)
    if isinstance(value, Graph):
        return value.map_dims(change)
    return value


# ---- origins ---------------------------------------------------------------------------------------------------------


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
        self.key = (str(self.array.dtype), self.array.shape, self.array.tobytes() if small else id(self))

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
    try:
        array = np.asarray(value, dtype=None if dtype is None else np.dtype(dtype))
    except OverflowError:
        raise errors.DtypeError("this Python integer does not fit the dtype", got=value, expected=dtype) from None
    check_unmasked(value, "a constant")
    if kind_of(types.dtype_of(array.dtype)).is_complex:
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


# ---- dimensions from and to nodes ------------------------------------------------------------------------------------

SIZE = Op(
    "size",
    infer=lambda *, dim: Type(np.dtype("int64")),
    reference=lambda *, dim: np.int64(dim),
    doc="the value of a dimension",
    moves_data=True,
    never_fails=True,
)


def as_dim(value: object) -> Dimension:
    """The dimension that an int or a scalar integer node stands for."""
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, Dim):
        return value
    if not isinstance(value, Node) or value.ndim or not value.type.kind.integral:
        raise errors.ArgumentError("a size must be an integer or an integer scalar", got=repr(value))
    if value.op is CONSTANT:
        return int(value.params["data"].array)
    if value.op is SIZE:
        return value.params["dim"]
    rule = value.op.of_dims
    if rule is not None and all(arg.type.kind.integral for arg in value.operands):
        return rule(*map(as_dim, value.operands))
    if (number := computed(value)) is not None:
        return int(number)
    counts_steps = most_steps(value) is not None
    return types.value_dim(value, value.name or f"{value.op.name}{value.serial}", counts_steps)


def most_steps(node: Node) -> Dimension | None:
    """The length of a loop, if a node is the number of steps that it ran until a condition ended it; else None."""
    if node.op is not PART or not node.args[0].params.get("until"):
        return None
    loop = node.args[0]
    return loop.params["length"] if node.params["index"] == len(loop.types) - 1 else None


_MOST_COMPUTED = 1 << 16
"""A value with more elements than this is not computed while a graph is being built."""


def computed(node: Node, given: Mapping[Node, Value] = MappingProxyType({})) -> Value:
    """The value of a small node that depends on constants and on given values alone; None for other nodes."""
    values = dict(given)
    stack = [node]
    while stack:
        top = stack[-1]
        if top in values:
            stack.pop()
            continue
        if top.op in ORIGINS or top.op is SIZE or "body" in top.params or top.several:
            return None
        if next(atoms_of(top), None) is not None or types.as_int(types.product(top.type.shape)) > _MOST_COMPUTED:
            return None
        missing = [arg for arg in top.args if arg not in values]
        stack.extend(missing)
        if not missing:
            try:
                with np.errstate(all="ignore"):
                    values[top] = top.op.reference(*(values[arg] for arg in top.operands), **top.params)
            except errors.ScanjitError:  # such as an index out of bounds: an error when the function runs, not now
                return None
    return values[node]


def dim_node(dim: Dimension) -> Node:
    """The int64 scalar node of a dimension."""
    if isinstance(dim, int):
        return constant(np.int64(dim))
    atom = types.as_atom(dim)
    if atom is not None and atom.kind == "value" and atom.node.dtype == np.int64:
        return atom.node
    return SIZE(dim=dim)


# ---- graphs ----------------------------------------------------------------------------------------------------------


def walk(roots: Iterable[Node], stop: Container[Node] = (), sizes: bool = True) -> list[Node]:
    """Every node that `roots` depend on, arguments first. The walk lists the nodes in `stop`, but not their arguments.
    Without `sizes`, it leaves out nodes that only dimensions depend on."""
    if not sizes:
        return bottom_up(roots, lambda node: () if node in stop else node.operands)
    return bottom_up(roots, (lambda node: () if node in stop else node.args) if stop != () else attrgetter("args"))


def dependents(order: Iterable[Node], roots: Iterable[Node]) -> set[Node]:
    """`roots`, and the nodes that depend on them among `order`, in which arguments come first."""
    found = set(roots)
    for node in order:
        if any(arg in found for arg in node.args):
            found.add(node)
    return found


def replace(
    roots: Sequence[Node], mapping: Mapping[Node, Node], dims: Mapping[Atom, Dimension] | None = None
) -> list[Node]:
    """`roots` with nodes replaced. Types are inferred anew. If a replacement has other dimensions than the node that it
    replaces, the new dimensions are substituted everywhere, also in the graphs of scans. Origins that are not in
    `mapping` stay as they are."""
    known: dict[Atom, Dimension] = dict(dims or {})
    for old, new in mapping.items():
        if not old.several and old.type.shape != new.type.shape:
            for before, after in zip(old.type.shape, new.type.shape, strict=True):
                atom = types.as_atom(before)
                if atom is not None and before != after:
                    known.setdefault(atom, after)
    done: dict[Node, Node] = dict(mapping)
    for node in walk(roots, mapping):
        if node not in done and node.op not in ORIGINS and (known or not done.keys().isdisjoint(node.args)):
            done[node] = rebuild(node, tuple([done.get(arg, arg) for arg in node.args]), known)
    return [done.get(root, root) for root in roots]


def rebuild(node: Node, args: tuple[Node, ...], dims: Mapping[Atom, Dimension] | None = None) -> Node:
    """The node's op on other arguments (one for each of `node.args`), at the same location."""
    if not dims and all(map(operator.is_, node.args, args)):
        return node
    changed = dict(dims or {})
    typed = True
    for old, new in zip(node.args, args, strict=True):  # a size may also be the value of an operand
        if old is not new:
            typed = typed and old.types == new.types
            if old.dim_ref is not None and (atom := old.dim_atom) is not None:
                changed[atom] = as_dim(new)
    params, operands = node.params, args[: node.arity]
    if changed:
        params = {k: map_dims(v, lambda d: types.substitute(d, changed)) for k, v in params.items()}
    elif typed:
        return _intern(node.applied, node.applied.arguments(operands), node)
    with errors.located(node.where):
        return node.op(*operands, **params)


def transferred(node: Node, args: tuple[Node, ...], where: str, name: str | None) -> Node:
    """The node's op on other arguments of the same types, at another location, with another name if it has one."""
    applied = node.applied
    if name != node.name:
        applied = AppliedOp.of(node.op, {**node.params, "name": name}, node.arity)
    return _intern(applied, args, node, where)


def with_params(node: Node, **changed: Parameter) -> Node:
    """The same node with some parameters changed."""
    with errors.located(node.where):
        return node.op(*node.operands, **{**node.params, **changed})


def rebuilt(outputs: Sequence[Node], change: Callable[[Node, Node], Node | None]) -> list[Node]:
    """The outputs, with `change(old, new)` in place of each node, from the origins up. `new` is the node on arguments
    that are replaced already; None leaves it."""
    done: dict[Node, Node] = {}  # the nodes that are not as they were
    same = done.keys().isdisjoint
    for node in walk(outputs):
        new = node if same(node.args) else rebuild(node, tuple([done.get(arg, arg) for arg in node.args]))
        changed = change(node, new)
        if changed is not None or new is not node:
            done[node] = new if changed is None else changed
    return [done.get(output, output) for output in outputs]


class Graph:
    """A closed graph: its outputs depend on its inputs alone. Inputs are `bound` nodes, known by position, so that
    equal functions are the same object. Make one with `Graph.of`.

    Dimensions inside a graph may use named sizes, which mean the same everywhere, and values of nodes of this graph. So
    if the type of an input depends on the value of a node, that node is an input too."""

    __slots__ = ("__weakref__", "_nodes", "inputs", "outputs")

    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    _nodes: list[Node] | None
    _interned: ClassVar[Interned[tuple[object, ...], Graph]] = Interned()

    @classmethod
    def of(cls, inputs: Sequence[Node], outputs: Sequence[Node]) -> Graph:
        """The graph of `outputs` as a function of `inputs` (any distinct nodes). Other origins are an error."""
        bound, dims = _renewed(inputs, lambda i, type_, name: BOUND(index=i, type=type_))
        new = tuple(replace(outputs, dict(zip(inputs, bound, strict=True)), dims))
        allowed = set(bound)
        for node in walk(new):
            if node.op in ORIGINS and node not in allowed:
                raise errors.InternalError(f"the graph is not closed: {node!r} is no input of it", where=node.where)
        key = (tuple(map(id, bound)), tuple(map(id, new)))
        found = cls._interned.get(key)
        if found is None:
            made = object.__new__(cls)
            made.inputs, made.outputs, made._nodes = bound, new, None
            found = cls._interned.known(key, made)
        return found

    def with_outputs(self, outputs: Sequence[Node]) -> Graph:
        """The graph of other outputs as a function of the same inputs."""
        same = len(outputs) == len(self.outputs) and all(map(operator.is_, outputs, self.outputs))
        return self if same else Graph.of(self.inputs, outputs)

    def __call__(self, *args: Node) -> list[Node]:
        """The outputs with the inputs replaced by `args`: the graph inlined."""
        return replace(self.outputs, dict(zip(self.inputs, args, strict=True)))

    def opened(self, dims: Mapping[Atom, Dimension] | None = None) -> tuple[list[Node], list[Node]]:
        """New inputs and the outputs over them, to build another graph from; dimensions replaced as `dims` says."""
        inputs, known = _renewed(self.inputs, lambda i, type_, name: new_input(type_, name), dims)
        return list(inputs), replace(self.outputs, dict(zip(self.inputs, inputs, strict=True)), known)

    def map_dims(self, change: Callable[[Dimension], Dimension]) -> Graph:
        """The graph with every dimension from outside changed. Dimensions that are values of nodes inside stay."""
        found = {a for n in self.nodes() for a in atoms_of(n) if a.kind == "size"}
        dims = {}
        for atom in sorted(found, key=lambda atom: atom.serial):
            before = types.dim_of(atom)
            after = change(before)
            if after != before:
                dims[atom] = after
        if not dims:
            return self
        return Graph.of(*self.opened(dims))

    def nodes(self) -> list[Node]:
        """Every node, arguments first."""
        if self._nodes is None:
            self._nodes = walk([*self.inputs, *self.outputs])
        return self._nodes

    def __repr__(self) -> str:
        return f"<Graph of {len(self.inputs)} inputs, {len(self.outputs)} outputs>"


def _renewed(
    inputs: Sequence[Node], make: Callable[[int, Type, str | None], Node], dims: Mapping[Atom, Dimension] | None = None
) -> tuple[tuple[Node, ...], dict[Atom, Dimension]]:
    """Replace nodes by new ones of the same types. Also returns the new forms of the dimensions in these types.

    If the type of node `a` depends on the value of node `b`, the type of the new `a` depends on the value of the new
    `b`.
    """
    known: dict[Atom, Dimension] = dict(dims or {})
    new: dict[int, Node] = {}
    for i, node in enumerate(inputs):
        if node.dim_atom is not None:
            new[i] = make(i, node.type, node.name)
            known[node.dim_atom] = as_dim(new[i])
    for i, node in enumerate(inputs):
        if i not in new:
            new[i] = make(i, map_dims(node.type, lambda d: types.substitute(d, known)), node.name)
    return tuple(new[i] for i in range(len(inputs))), known


def graphs_in(nodes: Iterable[Node]) -> list[Graph]:
    """The graphs that are parameters of nodes, and the graphs inside them. Each is given once, inner graphs first."""
    return bottom_up(_graphs_at(nodes), lambda graph: _graphs_at(graph.nodes()))


def walk_inside(outputs: Iterable[Node]) -> Iterator[Node]:
    """Every node that `outputs` depend on, then every node of the graphs inside of these."""
    order = walk(outputs)
    yield from order
    for graph in graphs_in(order):
        yield from graph.nodes()


def _graphs_at(nodes: Iterable[Node]) -> list[Graph]:
    return [value for node in nodes for value in node.params.values() if isinstance(value, Graph)]


def sizes_are_given(outputs: Iterable[Node]) -> bool:
    """Whether no node computes a size of a graph, or of one inside it: its sizes are numbers and sizes of inputs."""
    return all(node.dim_ref is None for node in walk_inside(outputs))


def atoms_of(node: Node, inside: bool = True) -> Iterator[Atom]:
    """The atoms of the dimensions in a node's types and parameters; with `inside`, in the graph of a loop or branch
    too."""
    for value in (node.types, *node.params.values()):
        yield from _param_atoms(value)
    for graph in graphs_in([node]) if inside else ():
        for inner in graph.nodes():
            yield from atoms_of(inner, inside=False)


def _param_atoms(value: object) -> Iterator[Atom]:
    if isinstance(value, Dim):
        yield from types.atoms(value)
    elif isinstance(value, Type):
        yield from _param_atoms(value.shape)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _param_atoms(item)


def sizes_in(body: Graph, operands: Sequence[Node], first: int = 0) -> tuple[tuple[int, Dimension], ...]:
    """The operands, from position `first` on, whose values are sizes in the graph of an op: the position and the
    dimension of each."""
    known = [(i, inner.dim_atom) for i, inner in enumerate(body.inputs) if i >= first and inner.dim_atom is not None]
    if not known:
        return ()
    # Inner graphs list in `sizes` the values that they use; their own inputs may be the same nodes as ours.
    used = {atom for node in body.nodes() for atom in atoms_of(node, inside=False)}
    return tuple((i, as_dim(operands[i])) for i, atom in known if atom in used)


def free_variables(outputs: Iterable[Node], inputs: Iterable[Node]) -> list[Node]:
    """The outermost nodes that `outputs` use and that do not depend on `inputs`: what a step function closes over.

    Nodes that depend on constants and dimensions alone are not listed: they belong to the graph. Except: a node whose
    value is a size in the type of an input, an output or a listed node is always listed. A size must be one value
    outside and inside, or the types would not agree."""
    given = sorted(inputs, key=lambda n: n.serial)
    inputs, outputs = set(given), list(outputs)
    outputs += [size for node in given for size in dim_nodes({"types": node.types})]
    order = walk(outputs, inputs)
    depends: set[Node] = set()
    known: set[Node] = set()
    for node in order:
        if node in inputs or any(arg in depends for arg in node.args):
            depends.add(node)
        elif node.op not in ORIGINS and all(arg in known for arg in node.args):
            known.add(node)
    free: dict[Node, None] = {}
    for node in order:
        for arg in node.args if node in depends and node not in inputs else ():
            if arg not in depends and arg not in known:
                free[arg] = None
    for node in outputs:
        if node not in depends and node not in known:
            free[node] = None
    for node in [*given, *outputs, *free]:
        free |= dict.fromkeys(size for size in dim_nodes({"types": node.types}) if size not in depends)
    return list(free)
