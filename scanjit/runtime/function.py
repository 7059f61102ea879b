"""`function`: from a graph to something to call.

Building a function checks what the user gave and compiles. A call converts the arguments, binds the symbolic sizes,
runs the program, and commits the updates of shared variables, all of them or none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    NoReturn,
    ParamSpec,
    Protocol,
    TypeVar,
    overload,
)

import numpy as np
from numpy.typing import NDArray

import scanjit.runtime.symbols  # noqa: F401 - installs how Node is copied and pickled
from scanjit import errors, show
from scanjit.config import config
from scanjit.ir import Node, declared, walk_inside
from scanjit.loops.structure import STORED, Tree, complex_of
from scanjit.ops.narrow import REMARK
from scanjit.ops.probe import has_probes
from scanjit.runtime import bounds, saving, sizes
from scanjit.runtime.arguments import READY, Slot
from scanjit.runtime.bindings import Bindings, Bound
from scanjit.runtime.decoding import decode
from scanjit.runtime.encoding import Encoded, encode
from scanjit.runtime.executable import Executable, Interpreted, executable_of
from scanjit.runtime.function_graph import FunctionGraph, Mode, check_complete, check_mode
from scanjit.runtime.given import graph_of
from scanjit.runtime.probes import Probes, exposed
from scanjit.runtime.shared import SharedVariable, commit, snapshot, updating
from scanjit.runtime.waiting import told
from scanjit.runtime.watch import OnStep, Step
from scanjit.symbol import Tensor, TensorLike
from scanjit.tensor.variables import check_name

if TYPE_CHECKING:
    # These import the scheduler and llvmlite, which who only builds graphs need not wait for.
    from scanjit.runtime.compiled import AtOnce
    from scanjit.runtime.footprint import Memory
    from scanjit.runtime.profile import Profile

P = ParamSpec("P")
R = TypeVar("R", covariant=True)
K = TypeVar("K")
T = TypeVar("T", bound=Tensor)
Array = NDArray[Any]
Inputs = Sequence[Node]
Updates = Mapping[SharedVariable, TensorLike] | Iterable[tuple[SharedVariable, TensorLike]] | None
_ndarray = np.ndarray


class Compiling(Protocol[P]):
    """`function`, as type checkers see it: where it is given an expression, a call returns an array."""

    @overload
    def __call__(self, /, inputs: Inputs, outputs: Tensor, *a: P.args, **k: P.kwargs) -> CompiledFunction[Array]: ...
    @overload
    def __call__(self, /, inputs: Inputs, outputs: None = ..., *a: P.args, **k: P.kwargs) -> CompiledFunction[None]: ...
    @overload
    def __call__(
        self, /, inputs: Inputs, outputs: list[T], *a: P.args, **k: P.kwargs
    ) -> CompiledFunction[list[Array]]: ...
    @overload
    def __call__(
        self, /, inputs: Inputs, outputs: tuple[Tensor, ...], *a: P.args, **k: P.kwargs
    ) -> CompiledFunction[tuple[Array, ...]]: ...
    @overload
    def __call__(
        self, /, inputs: Inputs, outputs: dict[K, T], *a: P.args, **k: P.kwargs
    ) -> CompiledFunction[dict[K, Array]]: ...
    @overload
    def __call__(self, /, inputs: Inputs, outputs: Any, *a: P.args, **k: P.kwargs) -> CompiledFunction[Any]: ...


def compiling(function: Callable[Concatenate[Any, Any, P], Any]) -> Compiling[P]:
    """A decorator that tells type checkers what a compiled function returns."""
    found: Any = function
    return found


@compiling
def function(
    inputs: Sequence[Node],
    outputs: Any = None,
    updates: Updates = None,
    givens: Mapping[Any, TensorLike] | Iterable[tuple[Any, TensorLike]] | None = None,
    name: str | None = None,
    mode: Mode = "numba",
    on_step: Callable[[Step], object] | None = None,
) -> CompiledFunction[Any]:
    """Compile expressions to a function of arrays.

    Parameters
    ----------
    inputs : the symbols (`sj.tensor`, `sj.vector`...) that the function is called with, in this order; those that have
        a name may also be passed by keyword.
    outputs : what it returns: an expression, a list, tuple or dict of them (nested as you like), or None.
    updates : new values of shared variables: pairs or a dict `variable -> expression`. All expressions are computed
        from the values before the call. Variables with a `default_update` (the states of random streams) that are read
        and not listed are updated so.
    givens : replacements made in all expressions first: pairs or a dict `symbol -> expression or value`.
    name : its name in errors and prints.
    mode : "numba" compiles; "reference" runs the graph op by op with NumPy, for debugging; "emulate" runs the generated
        code uncompiled, and checks every memory access, and that each result is written whole.
    on_step : in mode="reference" only: called after each step of each loop (of the loops of gradients too), with a
        `Step` that holds what the step was given and what it made, as arrays; print it to see all of it. To stop a
        debugger in each step, or in one that is of interest: `on_step=lambda step: breakpoint()`.

    Returns
    -------
    CompiledFunction
        It returns new arrays (for scalars, of no dimensions), exactly of the expressions' dtypes. It may be called from
        several threads at once. New sizes need no new compilation.

    Raises
    ------
    ArgumentError, DtypeError, ShapeError
        If something is no symbol, missing, given twice, or does not fit.

    Examples
    --------
    >>> import numpy as np, scanjit as sj
    >>> x = sj.vector("x")
    >>> total = sj.shared(0.0, "total")
    >>> add = sj.function([x], {"doubled": 2 * x, "sum": x.sum()}, updates={total: total + x.sum()})
    >>> add(np.array([1.0, 2.0]))
    {'doubled': array([2., 4.]), 'sum': array(3.)}
    >>> total.get_value()
    array(3.)

    Watching a loop, step by step:

    >>> h = sj.scan(lambda row, before: 0.5 * before + row, x, sj.constant(0.0), name="decay")
    >>> f = sj.function([x], h, mode="reference", on_step=lambda step: print(step.number, step.carries, step.outputs))
    >>> y = f([8.0, 2.0])
    0 [array(0.)] [array(8.)]
    1 [array(8.)] [array(6.)]
    """
    check_mode(mode)
    check_name(name)
    if on_step is not None and mode != "reference":
        raise errors.ArgumentError(
            "only the reference interpreter can be watched step by step",
            got=f"on_step and mode={mode!r}",
            fix='pass mode="reference" too',
        )
    name = name or "function"
    with told(name):
        graph = graph_of(inputs, outputs, updates, givens)
        check_complete(graph, name)
        return CompiledFunction(graph, name, mode, on_step)


def _arguments(count: int) -> str:
    return f"{count} argument{'' if count == 1 else 's'}"


def _probed(computed: list[Node], mode: str) -> tuple[list[Node], Probes, list[Node]]:
    """The graph in three forms: the nodes that the reference interpreter runs, the probes that are read after a call of
    compiled code, and the nodes that are compiled."""
    if not has_probes(computed):
        return computed, Probes(), computed
    from scanjit.rewrite.branches import share  # who prints nothing need not wait for the rewrites

    plain = share(computed, [])  # a probe that branches use, and others too, is one
    if mode == "reference":
        return plain, Probes(), plain
    probed, probes = exposed(plain)
    return plain, probes, probed


class CompiledFunction(Generic[R]):
    """A function of arrays, made by `scanjit.function`. Call it by position or by the names of its inputs.

    Attributes
    ----------
    name, mode : as given to `function`.
    executable : what runs it, as nodes, loop nests and kernels; for `dprint` and tests, and free to change.
    graph : what it computes, as nodes (`inputs`, `outputs`, `updates`).
    source : the generated code.

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> double = sj.function([x], 2 * x, name="double", mode="reference")
    >>> double([1.0, 2.0]), double(x=[3.0])
    (array([2., 4.]), array([6.]))
    >>> double.name, double.mode, double.graph.inputs[0] is x
    ('double', 'reference', True)
    """

    def __init__(
        self, graph: FunctionGraph, name: str, mode: Mode, on_step: Callable[[Step], Any] | None = None
    ) -> None:
        self.graph, self.name, self.mode = graph, name, mode
        shared = graph.shared
        self._leaves = [*graph.inputs, *shared]
        computed = list(dict.fromkeys(graph.roots))
        plain, self._probes, probed = _probed(computed, mode)
        self._plain = list(dict(zip(probed, plain, strict=True)).values())
        self._computed = list(dict.fromkeys([*probed, *self._probes.values]))
        index = {node: i for i, node in enumerate(self._computed)}
        place = {node: index[new] for node, new in zip(computed, probed, strict=True)}
        self._looked_at = [index[node] for node in self._probes.values]
        conditions = sizes.conditions(computed)
        watches = [] if on_step is None else [OnStep(on_step)]
        self._targets = [variable for variable, _ in graph.updates]
        changed = set(self._targets)
        self._changing = [node for node in shared if node.params["variable"] in changed]
        self.executable = executable_of(self._leaves, self._computed, name, mode, watches, self._changing)
        self._slow: Executable | None = None
        self._profiled: Any = None
        self._profiled_calls = 0
        self._slots = [
            Slot(
                f"argument {i}" + (f" ({node.name!r})" if node.name else "") + f" of {name}", declared(node), node.where
            )
            for i, node in enumerate(graph.inputs)
        ]
        self._arity = len(self._slots)
        self._shared = [node.params["variable"] for node in shared]
        self._assigned = [place[node] for _, node in graph.updates]
        self._unsure = [
            (variable, place[node])
            for variable, node in graph.updates
            if node.type.shape != variable.type.in_memory.shape
            or not all(isinstance(dim, int) for dim in node.type.shape)
        ]
        """The variables whose new values may not fit, each with the number of its result."""
        self._returned = _returning(graph, place)
        finish = _finishing(self._returned, self._probes, self._looked_at)
        self._bindings = Bindings(
            self._leaves, self._slots, conditions, self.executable, mode == "numba", None if self._targets else finish
        )
        self._last: Bound | None = None
        """What follows from the shapes of the last call."""
        self._at_once: AtOnce | Literal[False] = False
        """What makes whole calls with such arguments, from machine code (see `_begin_in_machine_code`)."""

    def __call__(self, *args: Any, **named: Any) -> R:
        known = self._last
        if known is not None and not named and known.fits(args):
            arrays = [*args]
        else:
            known = None
            if named or len(args) != self._arity:
                args = self.by_position(args, named)
            arrays = [
                value
                if type(value) is _ndarray and value.dtype is slot.as_it_is and value.flags.num & READY == READY
                else slot.convert(value)
                for value, slot in zip(args, self._slots)  # noqa: B905 - this path is all that a small function costs
            ]
        if not self._targets:
            return self._returned(self._run(arrays, known))
        return updating(self._targets, self._update, arrays, known)

    def _update(self, arrays: list[np.ndarray], known: Bound | None) -> Any:
        """What a call returns, after the updates of shared variables."""
        results = self._run(arrays, known)
        returned = self._returned(results)
        new = [results[i] for i in self._assigned]
        for variable, i in self._unsure:
            variable.check_shape(results[i].shape)
        commit(self._targets, new)
        return returned

    def by_position(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments of a call in the order of the inputs.

        Parameters
        ----------
        args : the arguments that are given by position.
        named : the arguments that are given by name.

        Raises
        ------
        ArgumentError
            If an argument is missing, is given twice, or is none of the inputs.

        Examples
        --------
        >>> import scanjit as sj
        >>> x, y = sj.vector("x"), sj.vector("y")
        >>> f = sj.function([x, y], x + y, mode="reference")
        >>> f.by_position((1.0,), {"y": 2.0})
        (1.0, 2.0)
        """
        if len(args) > self._arity:
            self._wrong_count(_arguments(len(args)))
        values: dict[int, Any] = dict(enumerate(args))
        places = {node.name: i for i, node in enumerate(self.graph.inputs) if node.name}
        for key, value in named.items():
            if key not in places:
                self._wrong_count(f"an argument {key!r}")
            if places[key] in values:
                self._wrong_count(f"{key!r} by position and by name")
            values[places[key]] = value
        missing = [slot.label for i, slot in enumerate(self._slots) if i not in values]
        if missing:
            self._wrong_count(f"{_arguments(len(args) + len(named))}, without {', '.join(missing)}")
        return tuple(values[i] for i in range(self._arity))

    def _wrong_count(self, got: str) -> NoReturn:
        wanted = ", ".join(
            f"{node.name or f'argument {i}'}: {declared(node)}" for i, node in enumerate(self.graph.inputs)
        )
        raise errors.ArgumentError(
            f"{self.name} takes {_arguments(self._arity)}",
            got=got,
            expected=f"({wanted})",
            fix="" if all(node.name for node in self.graph.inputs) else 'give inputs names, as in sj.vector("x")',
        )

    def _run(self, arrays: list[np.ndarray], known: Bound | None) -> list[np.ndarray]:
        """The results, in the order that the program was compiled for. `known` is what follows from the shapes, if that
        is known."""
        if self._shared:
            arrays += snapshot(self._shared)
        if known is None:
            known = self._last = self._bindings.to(arrays)
            self._at_once = known.at_once or False
            if self._at_once:
                _begin_in_machine_code()
        if config.check_finite:
            return self._watched().for_sizes(known.sizes)(arrays)
        timed = config.profile and self.mode == "numba"
        try:
            results = self._timed().for_sizes(known.sizes)(arrays) if timed else known.run(arrays)
        except bounds.UNEXPLAINED as error:
            if self.mode == "reference":
                raise
            raise bounds.explained(error, self._plain, dict(zip(self._leaves, arrays, strict=True))) from None
        if self._looked_at:
            self._probes.report([results[i] for i in self._looked_at])
        return results

    def _watched(self) -> Executable:
        """The program run op by op, in which values can be looked at."""
        if self._slow is None:
            reference = self.mode == "reference"
            self._slow = self.executable if reference else Interpreted(self._leaves, self._plain)
        return self._slow

    def _timed(self) -> Executable:
        """The program that takes the time of its statements; compiled when first asked for."""
        from scanjit.runtime.profile import timed

        if self._profiled is None:
            self._profiled = timed(self._leaves, self._computed, self.name, self._changing)
        self._profiled_calls += 1
        return self._profiled

    # ---- looking inside ------------------------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The generated code.

        Examples
        --------
        >>> import scanjit as sj
        >>> x = sj.vector("x")
        >>> f = sj.function([x], x + 1, mode="emulate")  # the code that mode="numba" compiles
        >>> "def add" in f.source
        True
        """
        return self.executable.source

    def explain(self) -> show.Document:
        """What was done to make it fast (fission, fusion, hoisting, memory, threads), and what was not, and why.

        Examples
        --------
        >>> import scanjit as sj
        >>> x = sj.vector("x")
        >>> f = sj.function([x], sj.exp(x).sum(), name="total", mode="emulate")
        >>> print(f.explain())
        total:
          program:
            nest sum: ...
            memory: 0 temporaries in one workspace, which is kept between calls: none
        """
        found = self.executable.explain()
        about = [node for node in walk_inside(self.graph.roots) if node.op is REMARK]
        remarks = [f"{node.params['what']} ({node.where})" for node in about]
        return show.Document(found.head, show.Document("measured", *remarks), *found.parts) if remarks else found

    def memory(self, **sizes: int) -> Memory:
        """The memory that a call takes, in bytes, without making it: of all temporaries (the workspace, kept for the
        next call) and of the new arrays for the results. Arguments and shared variables are not counted.

        Parameters
        ----------
        **sizes : int
            The sizes that the types of the inputs name.

        Raises
        ------
        ArgumentError
            If a size is missing, or has no name; or in mode="reference", where nothing is planned.

        Examples
        --------
        >>> import scanjit as sj
        >>> x = sj.tensor(("T", 3), name="x")
        >>> f = sj.function([x], sj.exp(x), mode="emulate")
        >>> f.memory(T=1000).results
        24000
        """
        if self.mode == "reference":
            raise errors.ArgumentError(
                "the memory of a function is planned where it is compiled", got='mode="reference"'
            )
        from scanjit.runtime.footprint import footprint

        return footprint(self.executable.stages, sizes, self.name)  # type: ignore[attr-defined]

    def profile(self) -> Profile:
        """How long each statement of the program took in the calls made with `sj.config.profile` on, beside what the
        machine allows (measured): print it, or draw it with `scanjit.plot.profile`.

        Raises
        ------
        ArgumentError
            If there was no such call.

        Examples
        --------
        >>> import numpy as np, scanjit as sj
        >>> x = sj.vector("x")
        >>> f = sj.function([x], sj.exp(x).sum())
        >>> sj.config.profile = True
        >>> y = f(np.zeros(1000))
        >>> sj.config.profile = False
        >>> f.profile().calls
        1
        """
        from scanjit.runtime.profile import profile_of

        return profile_of(self._profiled, self.name, self._profiled_calls)

    def inspect_asm(self) -> str:
        """The machine code.

        Examples
        --------
        >>> import scanjit as sj
        >>> f = sj.function([], sj.zeros(3), mode="reference")  # generates no code, and says so
        >>> print(f.inspect_asm())
        # mode="reference" generates no code: it runs the graph op by op. sj.dprint shows it.
        """
        return self.executable.inspect_asm()

    @property
    def __name__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        types = ((node.name, str(declared(node))) for node in self.graph.inputs)
        takes = ", ".join(f"{name}: {type_}" if name else type_ for name, type_ in types)
        gives = ", ".join(map(str, self.graph.returns)) or "None"
        updates = ", ".join(variable.name or "unnamed" for variable in self._targets)
        return f"<{self.name}({takes}) -> {gives}{f', updates {updates}' if updates else ''}; mode={self.mode!r}>"

    def document(self) -> show.Document:
        """The document that notebooks show: its signature, its shared variables, and a drawing of its graph.

        Examples
        --------
        >>> import scanjit as sj
        >>> print(sj.function([], sj.shared([1.0, 2.0], "w") * 2, name="double", mode="reference").document())
        <double() -> float64(2); mode='reference'>:
          shared variable  type        bytes
          w                float64(2)     16
        """
        rows = [(v.name or "unnamed", str(v.type), f"{v.get_value(borrow=True).nbytes:,}") for v in self.shared]
        tables = [show.Table(("shared variable", "type", "bytes"), rows)] if rows else []
        return show.Document(repr(self), *tables, show.Document("graph", show.GraphDrawing(self), folded=True))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return self.document().forms(include, exclude)

    # ---- keeping it ----------------------------------------------------------------------------------------------

    @property
    def shared(self) -> list[SharedVariable]:
        """The shared variables that it reads or updates, in the order in which they were made.

        Examples
        --------
        >>> import scanjit as sj
        >>> w, count = sj.shared(2.0, "w"), sj.shared(0, "count")
        >>> f = sj.function([], w * 3, updates={count: count + 1}, mode="reference")
        >>> {variable.name: variable.get_value() for variable in f.shared}
        {'w': array(2.), 'count': array(0)}
        """
        return self.graph.variables

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, with the values of its shared variables: `load` gives it back, without this code.

        The file is a zip archive of a JSON text and NumPy arrays, with a checksum. It holds the graph as it was
        defined, and no machine code: `load` compiles it (or finds the kernels in the cache). It names the lines of
        source code that defined the graph, for errors. A file that exists is replaced, at once or not at all.

        Parameters
        ----------
        path : str or path

        Raises
        ------
        NotSupportedError
            If it returns a dict with keys other than texts and numbers.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import os, tempfile, scanjit as sj
        >>> x = sj.vector("x")
        >>> f = sj.function([x], 2 * x, name="double", mode="reference")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "double.sj")
        ...     f.save(path)
        ...     sj.load(path)([1.0, 2.0])
        array([2., 4.])
        """
        saving.save(self.graph, self.name, self.mode, path)

    def __reduce__(self) -> tuple[Any, ...]:
        graph = self.graph
        nodes = encode([*graph.inputs, *graph.roots])
        return _restored, (nodes, len(graph.inputs), graph.tree, self._targets, graph.names, self.name, self.mode)

    def __dask_tokenize__(self) -> tuple[str, str]:
        from scanjit.runtime.token import token

        return type(self).__qualname__, token(self.graph, self.name, self.mode)


_call_in_python = CompiledFunction.__call__


def _begin_in_machine_code() -> None:
    """From now on, machine code is what a call of a function begins with. It makes those that can be made at once."""
    if CompiledFunction.__call__ is _call_in_python:
        from scanjit.runtime.native import native  # imports llvmlite

        setattr(CompiledFunction, "__call__", native().called(CompiledFunction, "_at_once", _call_in_python))  # noqa: B010


def check_compiled(f: object, *others: type) -> None:
    """Raise an error unless `f` is a compiled function, or an object of one of the other classes, and so can be
    exported."""
    if not isinstance(f, (CompiledFunction, *others)):
        raise errors.ArgumentError(
            "only a compiled function can be exported", got=repr(f), fix="make it with sj.function"
        )


def _restored(
    encoded: Encoded,
    inputs: int,
    tree: Tree | None,
    targets: list[SharedVariable],
    names: tuple[str, ...],
    name: str,
    mode: Mode,
) -> CompiledFunction[Any]:
    nodes = decode(encoded)
    outputs = nodes[inputs : len(nodes) - len(targets)]
    updates = tuple(zip(targets, nodes[len(nodes) - len(targets) :], strict=True))
    return CompiledFunction(FunctionGraph(tuple(nodes[:inputs]), tuple(outputs), tree, updates, names), name, mode)


def _finishing(
    returned: Callable[[list[np.ndarray]], Any], probes: Probes, looked_at: list[int]
) -> Callable[[list[np.ndarray]], Any]:
    """A function that shows probes what they look at, and makes what the user gets."""

    def finish(results: list[np.ndarray]) -> Any:
        probes.report([results[i] for i in looked_at])
        return returned(results)

    return finish if looked_at else returned


def _returning(graph: FunctionGraph, place: dict[Node, int]) -> Callable[[list[np.ndarray]], Any]:
    """A function that makes what the user gets, from the list of results. `place` says where each node is in it."""
    tree = graph.tree
    if tree is None:
        return lambda results: None
    places = [place[node] for node in graph.outputs]
    # A result that is returned twice, or returned and assigned, must not be one array in two places.
    used = [place[node] for _, node in graph.updates] + places
    copied = [i in used[: len(graph.updates) + n] for n, i in enumerate(places)]
    if tree == Tree() and not copied[0]:
        return itemgetter(places[0])
    if tree == STORED and not copied[0]:
        return lambda results: complex_of(results[places[0]])
    if tree.kind in (list, tuple) and not any(copied) and all(child.kind is None for child in tree.children):
        kind = tree.kind
        return lambda results: kind([results[i] for i in places])
    pairs = list(zip(places, copied, strict=True))
    return lambda results: tree.unflatten([results[i].copy() if copy else results[i] for i, copy in pairs])
