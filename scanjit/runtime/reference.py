"""The reference interpreter: a graph run with NumPy, one op at a time.

It is the oracle of the tests, and it runs `mode="reference"`. It shares no code with the code generator. It checks
every value that it computes against the type that was inferred for it, so that it finds every wrong type rule.
"""

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import BOUND, INPUT, SHARED, Graph, Node
from scanjit.ops.branch import IFELSE
from scanjit.ops.index import GATHER, SCATTER, outside
from scanjit.ops.roles import Roles
from scanjit.ops.scan import SCAN
from scanjit.runtime import probes, sizes
from scanjit.runtime.watch import At, Moment, Watch, described, step_of
from scanjit.types import Atom, Type

_KEPT = 16
"""A graph remembers the shapes and parameters of its nodes for this many combinations of sizes."""


def evaluate(outputs: Sequence[Node], env: Mapping[Node, Any], watches: Sequence[Watch] = ()) -> list[np.ndarray]:
    """The values of nodes.

    Parameters
    ----------
    outputs : the nodes.
    env : the values of inputs; of any other nodes too, which are then not computed. Shared variables that are not in
        it have their current values.
    watches : told of each value and each step, for debugging.

    Returns
    -------
    list of ndarray
        New arrays of exactly the inferred dtypes and shapes.
    """
    return Interpreter(outputs, env)(env, watches)


class Interpreter:
    """Outputs as a function of the values of some nodes, which can be run several times; see `evaluate`."""

    def __init__(self, outputs: Iterable[Node], given: Iterable[Node] = ()) -> None:
        self.outputs, self.given = tuple(outputs), tuple(given)
        self._plan = _Plan(self.outputs, self.given)

    def __call__(self, env: Mapping[Node, Any], watches: Sequence[Watch] = ()) -> list[np.ndarray]:
        """The values of the outputs as new arrays."""
        arrays = [_as_array(node, env[node]) for node in self.given]
        arrays += [_as_array(node, node.params["variable"].stored) for node in self._plan.shared]
        atoms = sizes.bind([*self.given, *self._plan.shared], [a.shape for a in arrays])
        with np.errstate(all="ignore"):
            for watch in watches:
                for node, array in zip((*self.given, *self._plan.shared), arrays, strict=True):
                    watch.given(node, array)
            values = _run(self._plan, arrays, atoms, watches, (), {})
        return [np.array(value) for value in values]


def _as_array(node: Node, value: Any) -> np.ndarray:
    """A given value as an array of the node's dtype. Python's numbers and lists are converted to it."""
    array = np.asarray(value, node.dtype if isinstance(value, bool | int | float | list | tuple) else None)
    if array.dtype != node.dtype:
        raise errors.DtypeError(
            f"the value for {node!r} has another dtype", got=array.dtype, expected=node.dtype, where=node.where
        )
    return array


# ---- plans: what can be known before a run ---------------------------------------------------------------------------


_Numbers = tuple[dict[str, Any], tuple[tuple[int, ...], ...]]
"""The parameters of an op and the shapes of its results, with dimensions as ints."""


class _Step:
    """A node to compute: the places of its operands and of its value, and everything known about it before a run."""

    __slots__ = ("atom", "bodies", "early", "late", "node", "operands", "slot", "symbolic", "types", "varies")

    def __init__(self, node: Node, slot: int, slots: Mapping[Node, int], sized: set[Atom]) -> None:
        self.node, self.slot = node, slot
        self.operands = [slots[arg] for arg in node.operands]
        self.types: tuple[Type, ...] = node.types
        self.bodies = _plans_of(node)
        self.atom = node.dim_atom if node.dim_atom in sized else None
        checks = _verified_conditions(node)
        self.late = [check for check in checks if check.on_values]
        self.early = [check for check in checks if not check.on_values]
        found = set(ir.own_atoms(node) if self.bodies else ir.atoms_of(node))
        self.symbolic = bool(found)
        self.varies = any(atom.kind == "value" for atom in found)


def _verified_conditions(node: Node) -> list[sizes.Check]:
    """The conditions of a node. Its type must be the one that its op infers from its operands."""
    before, (now, checks) = node.types, sizes.inferred(node)
    if [(t.dtype, t.ndim) for t in before] != [(t.dtype, t.ndim) for t in now]:
        raise errors.InternalError(
            f"the type of {node.op.name} is not what its operands give", got=before, expected=now, where=node.where
        )
    return checks


class _Plan:
    """The order in which the nodes of a graph are computed, and where each keeps its value."""

    def __init__(self, outputs: Sequence[Node], given: Sequence[Node]) -> None:
        order = ir.walk([*given, *outputs], set(given))
        self.shared = [node for node in order if node.op is SHARED and node not in set(given)]
        origins = [*given, *self.shared]
        slots = {node: i for i, node in enumerate(origins)}
        rest = [node for node in order if node not in slots]
        slots |= {node: len(origins) + i for i, node in enumerate(rest)}
        for node in rest:
            if node.op in (INPUT, BOUND):
                raise errors.ArgumentError(f"there is no value for {node!r}", where=node.where)
        sized = {atom for node in order for atom in ir.atoms_of(node) if atom.kind == "value"}
        self.origins = [(node, node.dim_atom if node.dim_atom in sized else None) for node in origins]
        self.shapes = [node.type.shape if all(type(n) is int for n in node.type.shape) else None for node in origins]
        self.steps = [_Step(node, slots[node], slots, sized) for node in rest]
        self.outputs = [slots[node] for node in outputs]
        self.count = len(slots)
        self.sizes = sorted(
            {atom for node in order for atom in ir.atoms_of(node) if atom.kind == "size"}, key=lambda a: a.serial
        )
        self._ready: dict[tuple[int | None, ...], list[_Numbers | None]] = {}

    def ready(self, atoms: Mapping[Atom, int]) -> list[_Numbers | None]:
        """The numbers of each step for known sizes; None if they depend on values. The conditions of steps are checked
        here, once for each combination of sizes."""
        key = tuple(atoms.get(atom) for atom in self.sizes)
        found = self._ready.get(key)
        if found is None:
            for step in self.steps:
                sizes.check(step.early, atoms)
            if len(self._ready) >= _KEPT:
                self._ready.clear()
            found = self._ready[key] = [None if step.varies else _numbers(step, atoms) for step in self.steps]
        return found


_plans: weakref.WeakKeyDictionary[Graph, dict[Any, tuple[_Plan, ...]]] = weakref.WeakKeyDictionary()


def _plans_of(node: Node) -> tuple[_Plan, ...]:
    """The plans of the graphs inside a node: the step of a loop, or two branches. Most ops have none."""
    graph = node.params.get("body")
    if not isinstance(graph, Graph):
        return ()
    known = _plans.setdefault(graph, {})
    if node.op not in known:
        outputs, half = graph.outputs, len(graph.outputs) // 2
        chosen = [outputs[:half], outputs[half:]] if node.op is IFELSE else [outputs]
        known[node.op] = tuple(_Plan(nodes, graph.inputs) for nodes in chosen)
    return known[node.op]


def _numbers(step: _Step, atoms: Mapping[Atom, int]) -> _Numbers:
    """The parameters of an op and the shapes of its results, with dimensions as ints."""
    node, params = step.node, step.node.params
    shapes: tuple[tuple[Any, ...], ...] = tuple(type_.shape for type_ in step.types)
    if step.symbolic:
        params = {k: v if isinstance(v, Graph) else _number(v, atoms) for k, v in params.items() if k != "sizes"}
        shapes = tuple(_number(shape, atoms) for shape in shapes)
    for type_, shape in zip(step.types, shapes, strict=True):
        types.check_memory(type_.dtype.itemsize, type_.with_shape(shape), node.where)
    return params, shapes


def _number(value: Any, atoms: Mapping[Atom, int]) -> Any:
    try:
        return ir.map_dims(value, lambda dim: types.evaluate(dim, atoms))
    except KeyError as error:
        raise errors.ArgumentError(f"the size {error.args[0]} is in the type of no value that is given") from None


# ---- runs ------------------------------------------------------------------------------------------------------------


_Branches = dict[tuple[Any, ...], tuple[tuple[np.ndarray, ...], Sequence[np.ndarray]]]
"""Results of branches that were run, with their operands: by the plan of the branch and the identities of the operands.

The graph of a branch holds all nodes that its result is made of. If `y = ifelse(c(y), f(y), g(y))` is written many
times in a row, each branch holds all branches before it. With this memory, each of them runs once.
"""


def _run(
    plan: _Plan,
    given: Sequence[np.ndarray],
    atoms: Mapping[Atom, int],
    watches: Sequence[Watch],
    at: At,
    branches: _Branches,
) -> list[np.ndarray]:
    """The outputs of a graph for the values of its origins."""
    atoms = dict(atoms)
    values: list[Any] = [*given, *[None] * (plan.count - len(given))]
    for (_, atom), value in zip(plan.origins, given, strict=True):
        if atom is not None:
            atoms[atom] = int(value)
    for (node, _), shape, value in zip(plan.origins, plan.shapes, given, strict=True):
        if value.shape != shape or value.dtype != node.dtype:  # an unknown shape is None
            _check_leaf(node, value, atoms)
    for step, known in zip(plan.steps, plan.ready(atoms), strict=True):
        if step.late:
            sizes.check(step.late, atoms)
        params, shapes = known or _numbers(step, atoms)
        operands = [values[i] for i in step.operands]
        if step.node.op is SCAN:
            result: Any = _scan(step, operands, params, shapes, atoms, watches, at)
        elif step.node.op is IFELSE:
            chosen = step.bodies[0 if operands[0] else 1]
            inside = (*at, Moment(step.node, 0, 0))
            key = (chosen, *map(id, operands[1:]))
            if key not in branches or watches:
                found = tuple(_run(chosen, operands[1:], _outside(atoms), watches, inside, branches))
                branches[key] = found, operands  # which keeps their numbers theirs
            result = branches[key][0]
        else:
            result = _applied(step.node, operands, params, at)
        values[step.slot] = result = _checked(step, result, shapes)
        if step.atom is not None:
            atoms[step.atom] = int(result)
        for watch in watches:
            watch.computed(step.node, operands, result, at)
    return [values[i] for i in plan.outputs]


def _apply(node: Node, operands: Sequence[Any], params: dict[str, Any]) -> Any:
    return node.op.reference(*operands, **params)


def _applied(node: Node, operands: Sequence[Any], params: dict[str, Any], at: At) -> Any:
    """The value of a node. If its op raises an error, the error says in which step of the run that was."""
    try:
        return _apply(node, operands, params)
    except errors.AssertError:
        raise probes.failed(node, at) from None
    except errors.ScanjitError as error:
        if node.op in (GATHER, SCATTER):
            error = outside(node, operands) or error
        error.where = node.where  # where it was raised is a line of this package
        error.what += described(at)
        raise error


def _check_leaf(node: Node, value: np.ndarray, atoms: Mapping[Atom, int]) -> None:
    fits = value.dtype == node.dtype and value.ndim == node.ndim
    if not fits or not all(map(_agrees(atoms), node.type.shape, value.shape)):
        raise errors.InternalError(
            f"the value of {node!r} has another type",
            got=f"{value.dtype}{value.shape}",
            expected=", ".join(map(str, node.types)),
            where=node.where,
        )


def _agrees(atoms: Mapping[Atom, int]) -> Callable[[types.Dimension, int], bool]:
    """Whether a dimension has this value. True also if its sizes are not known yet."""

    def agrees(dim: types.Dimension, size: int) -> bool:
        if isinstance(dim, int):
            return dim == size
        return any(atom not in atoms for atom in types.atoms(dim)) or types.evaluate(dim, atoms) == size

    return agrees


def _checked(step: _Step, result: Any, shapes: Sequence[tuple[int, ...]]) -> Any:
    """The result as an array, or as a tuple of arrays if the op has several. Raises if it is not of the inferred
    type."""
    several = step.node.several
    if not several and type(result) is np.ndarray and result.dtype == step.types[0].dtype and result.shape == shapes[0]:
        return result
    arrays = tuple(np.asarray(value) for value in (result if several else (result,)))
    for array, type_, shape in zip(arrays, step.types, shapes, strict=True):
        if array.dtype != type_.dtype or array.shape != shape:
            raise errors.InternalError(
                f"the value of {step.node.op.name} has another type than inferred",
                got=f"{array.dtype}{array.shape}",
                expected=f"{type_.dtype}{shape}, for the type {type_}",
                where=step.node.where,
            )
    return arrays if several else arrays[0]


def _outside(atoms: Mapping[Atom, int]) -> dict[Atom, int]:
    """The sizes that a body shares with the graph around it."""
    return {atom: size for atom, size in atoms.items() if atom.kind == "size"}


def _scan(
    step: _Step,
    operands: Sequence[np.ndarray],
    params: Mapping[str, Any],
    shapes: Sequence[tuple[int, ...]],
    atoms: Mapping[Atom, int],
    watches: Sequence[Watch],
    at: At,
) -> tuple[Any, ...]:
    """A loop, step by step. Rows of steps that do not run stay zero."""
    (body,) = step.bodies
    length = params["length"]
    if length < 0:
        raise errors.ScanError("a scan cannot run a negative number of steps", got=length, where=step.node.where)
    if length >= 2**63:
        raise errors.ShapeError("a number of steps has more than 64 bits", got=length, where=step.node.where)
    roles = Roles.of(step.node)
    inits, xs, consts = roles.split(operands)
    rings = {i: deque(np.array(inits[i])) for i in roles.lags}
    carries = list(inits)
    stacks = [np.zeros(shapes[i], step.types[i].dtype) for i in roles.stacks]
    outer = _outside(atoms)
    count = 0
    reverse = params["reverse"]
    for row in reversed(range(length)) if reverse else range(length):
        for i, ring in rings.items():
            carries[i] = np.asarray(ring.pop() if reverse else ring.popleft())
        given = [*carries, *(np.asarray(x[row]) for x in xs), *consts]
        inside = (*at, Moment(step.node, count, row))
        results = _run(body, given, outer, watches, inside, {})
        for watch in watches:
            watch.stepped(step_of(step.node, given, results, inside))
        new, ys, stop = roles.split_results(results)
        carries = list(new)
        for i, ring in rings.items():
            (ring.appendleft if reverse else ring.append)(new[i])
        for stack, y in zip(stacks, ys, strict=True):
            stack[row] = y
        count += 1
        if stop is not None and stop:
            break
    for i, ring in rings.items():
        carries[i] = np.array(ring, operands[i].dtype).reshape(operands[i].shape)
    return (*carries, *stacks, *([np.int64(count)] if roles.until else []))
