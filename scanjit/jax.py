"""The bridge to JAX: a compiled function as a function of JAX's arrays, in `jit`, `grad`, `vmap`, `lax.scan` and so on.

XLA calls it through its interface for foreign functions, with the memory of its own arrays: arguments are not copied.
Derivatives and batches are compiled functions of their own, made when JAX first asks for them. So there are derivatives
of every order, forward and reverse. The results of loops and products are kept for the reverse on the way forward.
"""

from __future__ import annotations

import ctypes
import functools
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scanjit import errors
from scanjit.bridge import ArgumentKind, BridgedFunction, Derivative, ForeignFunction, imported, in_memory, is_weak
from scanjit.ir import Node
from scanjit.runtime.function_graph import Mode
from scanjit.runtime.locks import new_lock

__all__ = ["JaxFunction", "as_function"]


def as_function(f: Callable[..., Any], mode: Mode = "numba") -> JaxFunction:
    """A function for JAX's arrays that JAX can transform.

    Parameters
    ----------
    f : CompiledFunction, or a function of symbols
        A compiled function is called as it is; its derivatives are compiled in its mode. A Python function is traced
        when it is first called, and again for other ranks and dtypes (not for other sizes); arguments and results may
        be nested. Shared variables are constants here: they have the values that they have at each call.
    mode : str
        For a function of symbols: see `scanjit.function`.

    Returns
    -------
    JaxFunction
        It takes arrays on the CPU, by position (or by the names of inputs of a compiled function), and gives new ones.

    Raises
    ------
    ArgumentError
        If the function updates shared variables: JAX could not see that.
    ImportError
        Without JAX: `pip install 'scanjit[jax]'`.

    Notes
    -----
    It works in `jit`, `grad`, `jvp`, `vjp`, `linearize`, `vmap`, and in `lax.scan`, `cond` and `while_loop`. It is an
    error if sizes of the results depend on values: JAX must know them. An error of a call becomes one of XLA's. Complex
    arrays are copied into pairs of floats and back; their gradients follow JAX's convention.

    Examples
    --------
    >>> import jax, jax.numpy as jnp  # doctest: +SKIP
    >>> import scanjit as sj
    >>> smooth = sj.jax.as_function(lambda x, w: sj.scan(lambda row, h: w * h + row, x, sj.zeros(())))  # doctest: +SKIP
    >>> jax.grad(lambda w: smooth(jnp.ones(3), w).sum())(0.5)  # doctest: +SKIP
    Array(3., dtype=float32, weak_type=True)
    """
    return JaxFunction(f, mode)


class JaxFunction(ForeignFunction):
    """A function of JAX's arrays, made by `as_function`.

    Parameters
    ----------
    f, mode : see `as_function`.

    Examples
    --------
    >>> from scanjit.jax import JaxFunction, as_function  # doctest: +SKIP
    >>> isinstance(as_function(lambda x: x * x), JaxFunction)  # doctest: +SKIP
    True
    """

    def __init__(self, f: Callable[..., Any], mode: Mode = "numba") -> None:
        _primitive()
        super().__init__(f, mode, "JAX")

    def __call__(self, *args: Any, **named: Any) -> Any:
        jnp, tree = _jax().numpy, _jax().tree_util
        programs = self._programs
        args, made = programs.by_position(args, named), programs.compiled
        if made is not None:
            pairs = zip(args, made.types, strict=True)
            arrays = [jnp.asarray(value, type_.dtype if is_weak(value) else None) for value, type_ in pairs]
        else:
            leaves, structure = tree.tree_flatten(args)
            arrays = [jnp.asarray(leaf) for leaf in leaves]
            kinds = tuple(ArgumentKind(x.ndim, str(x.dtype), getattr(x, "weak_type", False)) for x in arrays)
            made = programs.traced(kinds, lambda symbols: tree.tree_unflatten(structure, symbols), structure)
            triples = zip(arrays, kinds, made.types, strict=True)
            arrays = [x.astype(type_.dtype) if kind.weak else x for x, kind, type_ in triples]
        arrays = [in_memory(array, type_, jnp) for array, type_ in zip(arrays, made.types, strict=True)]
        programs.check(arrays, made, _wide)
        outputs = _bind(made.program, arrays)
        return made.returned(outputs, lambda pairs: _jax().lax.complex(pairs[..., 0], pairs[..., 1]))


def _wide(node: Node) -> str:
    """The array of JAX that stands for an input of this type."""
    return "JAX has 64 bits only with jax.config.update('jax_enable_x64', True)" if node.dtype.itemsize == 8 else ""


# ---- the primitive ---------------------------------------------------------------------------------------------------


@functools.cache
def _jax() -> Any:
    """JAX, which is imported when it is first needed."""
    interpreters = (f"jax.interpreters.{name}" for name in ("ad", "batching", "mlir"))
    return imported("JAX", "jax", "jax.extend.core", *interpreters)


def _bind(program: BridgedFunction, arrays: Sequence[Any]) -> list[Any]:
    """The outputs of a program, which JAX can transform."""
    return _primitive().bind(*arrays, program=program, of=None, needed=())


@functools.cache
def _primitive() -> Any:
    """JAX's primitive for all programs. The parameter `program` is what it computes. If it computes the tangents `of`
    another program, the last operands are the tangents of the inputs `needed` of that: it is linear in them."""
    primitive, interpreters = _jax().extend.core.Primitive("scanjit"), _jax().interpreters
    primitive.multiple_results = True
    primitive.def_impl(lambda *arrays, **params: _jitted(tuple(params.items()))(*arrays))
    primitive.def_abstract_eval(_types_of)
    interpreters.mlir.register_lowering(primitive, _lower, platform="cpu")
    interpreters.ad.primitive_jvps[primitive] = _forward
    interpreters.ad.primitive_transposes[primitive] = _transpose
    interpreters.batching.primitive_batchers[primitive] = _batch
    return primitive


@functools.lru_cache(maxsize=1024)
def _jitted(params: Any) -> Any:
    return _jax().jit(lambda *arrays: _primitive().bind(*arrays, **dict(params)))


def _types_of(*avals: Any, program: BridgedFunction, **_: Any) -> Any:
    shapes = program.shapes([aval.shape for aval in avals])
    return [_jax().core.ShapedArray(shape, node.dtype) for shape, node in zip(shapes, program.outputs, strict=True)]


def _lower(context: Any, *operands: Any, program: BridgedFunction, **_: Any) -> Any:
    return _jax().ffi.ffi_lowering(_target(program))(context, *operands)


def _forward(primals: Any, tangents: Any, *, program: BridgedFunction, **_: Any) -> Any:
    """The outputs and their tangents."""
    pairs = enumerate(zip(tangents, program.inputs, strict=True))
    needed = tuple(i for i, (g, node) in pairs if not _is_zero(g) and node.type.kind.floating)
    if not needed:
        outputs = _bind(program, primals)
        return outputs, list(map(_zero, outputs))
    keeping = program.keeping(needed)
    found = _bind(keeping, primals)
    outputs = found[: len(program.outputs)]
    tangent: Derivative = keeping.tangent(needed)
    operands = [*primals, *(found[i] for i in keeping.kept), *(tangents[i] for i in needed)]
    reached = _primitive().bind(*operands, program=tangent.program, of=keeping, needed=needed)
    given = dict(zip(tangent.reached, reached, strict=True))
    return outputs, [given[i] if i in given else _zero(out) for i, out in enumerate(outputs)]


def _transpose(
    cotangents: Any, *operands: Any, program: BridgedFunction, of: BridgedFunction | None, needed: tuple[int, ...]
) -> Any:
    """The cotangents of the operands of a program that computes tangents."""
    if of is None:
        raise errors.GradientError(f"{program.name} is not linear: JAX cannot transpose it")
    pairs = [(i, g) for i, g in zip(of.tangent(needed).reached, cotangents, strict=True) if not _is_zero(g)]
    first = len(operands) - len(needed)
    results: list[Any] = [None] * len(operands)
    if pairs:
        pullback = of.pullback(needed, tuple(i for i, _ in pairs))
        found = _bind(pullback.program, [*operands[:first], *(g for _, g in pairs)])
        for i, g in zip(pullback.reached, found, strict=True):
            results[first + needed.index(i)] = g
    ad = _jax().interpreters.ad
    return [
        ad.Zero(x.aval.to_tangent_aval()) if ad.is_undefined_primal(x) and g is None else g
        for x, g in zip(operands, results, strict=True)
    ]


def _batch(operands: Any, axes: Any, *, program: BridgedFunction, **_: Any) -> Any:
    """The outputs for a batch, and the axis of the batch in each."""
    over = tuple(isinstance(axis, int) for axis in axes)
    triples = zip(operands, axes, over, strict=True)
    moved = [_jax().numpy.moveaxis(value, axis, 0) if some else value for value, axis, some in triples]
    outputs = _bind(program.batched(over), moved)
    return outputs, [0] * len(outputs)


def _zero(value: Any) -> Any:
    """The tangent of a value that does not change."""
    return _jax().interpreters.ad.Zero(_jax().typeof(value).to_tangent_aval())


def _is_zero(tangent: Any) -> bool:
    return type(tangent) is _jax().interpreters.ad.Zero


# ---- XLA's interface for foreign functions ---------------------------------------------------------------------------


_HEAD: list[tuple[str, Any]] = [("size", ctypes.c_size_t), ("next", ctypes.c_void_p)]
"""The first fields of most structures of this interface."""


class _Version(ctypes.Structure):
    _fields_ = [*_HEAD, ("major", ctypes.c_int), ("minor", ctypes.c_int)]


class _Api(ctypes.Structure):
    _fields_ = [
        *_HEAD,
        ("version", _Version),
        ("internal", ctypes.c_void_p),
        ("new_error", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)),
    ]


class _Extension(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("metadata", ctypes.c_void_p),
    ]


class _Metadata(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("version", _Version)]


class _Buffer(ctypes.Structure):
    _fields_ = [
        *_HEAD,
        ("dtype", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
    ]


class _Buffers(ctypes.Structure):
    _fields_ = [
        *_HEAD,
        ("count", ctypes.c_int64),
        ("types", ctypes.c_void_p),
        ("buffers", ctypes.POINTER(ctypes.POINTER(_Buffer))),
    ]


class _Frame(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("extension", ctypes.POINTER(_Extension)),
        ("api", ctypes.POINTER(_Api)),
        ("context", ctypes.c_void_p),
        ("stage", ctypes.c_int),
        ("arguments", _Buffers),
        ("results", _Buffers),
    ]


class _NewError(ctypes.Structure):
    _fields_ = [*_HEAD, ("message", ctypes.c_char_p), ("code", ctypes.c_int)]


_HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Frame))
_METADATA, _EXECUTE, _UNKNOWN = 1, 3, 2
_targets: dict[BridgedFunction, tuple[str, Any]] = {}
_lock = new_lock()


def _target(program: BridgedFunction) -> str:
    """The name under which XLA finds a program. It is different in every process, so that no other process finds it on
    disk."""
    with _lock:
        if program not in _targets:
            name = f"scanjit_{uuid.uuid4().hex}"
            handler = _HANDLER(functools.partial(_handle, program))
            pointer = ctypes.cast(handler, ctypes.c_void_p)
            _jax().ffi.register_ffi_target(name, _jax().ffi.pycapsule(pointer), platform="cpu")
            _targets[program] = name, handler
        return _targets[program][0]


def _handle(program: BridgedFunction, frame: Any) -> int | None:
    """The function that XLA calls. Returns the address of an error, or None."""
    call = frame.contents
    if call.extension and call.extension.contents.type == _METADATA:
        _Metadata.from_address(call.extension.contents.metadata).version = call.api.contents.version
        return None
    if call.stage != _EXECUTE:
        return None
    try:
        inputs = [_array(call.arguments, i, node.dtype) for i, node in enumerate(program.inputs)]
        for i, value in enumerate(program.run(inputs)):
            _array(call.results, i, value.dtype)[...] = value
        return None
    except BaseException as error:
        message = f"{type(error).__name__}: {error}".encode()
        made = _NewError(ctypes.sizeof(_NewError), None, message, _UNKNOWN)
        return call.api.contents.new_error(ctypes.addressof(made))


def _array(buffers: _Buffers, number: int, dtype: np.dtype) -> np.ndarray:
    """The array in a buffer of XLA's."""
    buffer = buffers.buffers[number].contents
    shape = tuple(buffer.dims[axis] for axis in range(buffer.rank))
    nbytes = dtype.itemsize * int(np.prod(shape))
    if not nbytes:
        return np.zeros(shape, dtype)
    return np.frombuffer((ctypes.c_char * nbytes).from_address(buffer.data), dtype).reshape(shape)
