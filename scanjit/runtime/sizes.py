"""Sizes at run time: the number that each symbol stands for in a call, and the conditions on these numbers."""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from scanjit import errors, ir, types
from scanjit.ir import Graph, Node
from scanjit.ops.branch import IFELSE
from scanjit.ops.shape import IOTA
from scanjit.records import record, replace
from scanjit.types import Atom, Dimension

# ---- from shapes to symbols ------------------------------------------------------------------------------------------


@record(eq=True)
class _Place:
    """One dimension of one input."""

    label: str
    axis: int
    dim: Dimension
    size: int


def bind(nodes: Sequence[Node], shapes: Sequence[Sequence[int]]) -> dict[Atom, int]:
    """The number of every size that occurs in the types of inputs.

    Parameters
    ----------
    nodes : the inputs.
    shapes : the shape of what was passed for each.

    Raises
    ------
    ShapeError
        A rank or a fixed size is another than declared, or two dimensions of one symbol differ (it names both).
    """
    places = []
    for number, (node, shape) in enumerate(zip(nodes, shapes, strict=True)):
        label = f"input {node.name or number}"
        if len(shape) != node.ndim:
            raise errors.ShapeError(
                f"{label} has {len(shape)} dimensions instead of {node.ndim}",
                got=f"an array of shape {tuple(map(int, shape))}",
                expected=node.type,
                where=node.where,
            )
        places += [
            _Place(label, axis, dim, int(size))
            for axis, (dim, size) in enumerate(zip(node.type.shape, shape, strict=True))
        ]
    return _solved(places)


def _solved(places: Sequence[_Place]) -> dict[Atom, int]:
    found: dict[Atom, int] = {}
    origin: dict[Atom, _Place] = {}
    composite = []
    for place in places:
        atom = types.as_atom(place.dim)
        if atom is None or atom.kind != "size":
            composite.append(place)
        elif found.setdefault(atom, place.size) != place.size:
            raise _disagreement(origin[atom], place)
        else:
            origin.setdefault(atom, place)
    open_before = -1
    while composite and len(composite) != open_before:
        open_before = len(composite)
        composite = [place for place in composite if not _solve(place, found)]
    return found


def _solve(place: _Place, found: dict[Atom, int]) -> bool:
    """Check a dimension such as `2*N + M`, or solve it for the one size that is unknown. False if two are unknown."""
    unknown = {atom for atom in types.atoms(place.dim) if atom not in found}
    if not unknown:
        wanted = types.evaluate(place.dim, found)
        if wanted != place.size:
            raise _misfit(place, f"{wanted}" if isinstance(place.dim, int) else f"{place.dim}, which is {wanted}")
        return True
    (atom,) = unknown if len(unknown) == 1 else (None,)
    if atom is None or atom.kind != "size":
        return False
    zero, one = (types.evaluate(place.dim, {**found, atom: value}) for value in (0, 1))
    linear = all(sum(a is atom for a in m) <= 1 and all(a.kind == "size" for a in m) for m, _ in types.terms(place.dim))
    if not linear or one == zero:
        return False
    value, rest = divmod(place.size - zero, one - zero)
    if rest or value < 0:
        raise _misfit(place, f"{place.dim}")
    found[atom] = value
    return True


def _disagreement(first: _Place, second: _Place) -> errors.ShapeError:
    at = "" if first.axis == second.axis else f" in dimension {second.axis}"
    return errors.ShapeError(
        f"{first.label} has {first.size} rows in dimension {first.axis} ('{first.dim}'), "
        f"{second.label} has {second.size}{at}",
        expected="equal sizes, as both are declared with one symbol",
    )


def _misfit(place: _Place, wanted: str) -> errors.ShapeError:
    return errors.ShapeError(f"dimension {place.axis} of {place.label} has size {place.size} instead of {wanted}")


# ---- conditions ------------------------------------------------------------------------------------------------------


@record(eq=True)
class Check:
    """A condition on dimensions that type inference relied on. Only a call can decide it.

    Parameters
    ----------
    kind : "==" or "<=".
    left, right : the dimensions.
    what : for "==", what must be equal; for "<=", the text of the error, with `{left}` and `{right}` for the values.
    where : the user's line of the node that relies on it.
    body : the graph of the scan in whose steps it must be decided, as it depends on values in a step; else None.
    error : the class of the error if it does not hold.
    shapes : for "==", the actual and the wanted shape of the thing named by `what`, if the error is to show both.
    """

    kind: str
    left: Dimension
    right: Dimension
    what: str
    where: str
    body: Graph | None = None
    error: type[errors.ScanjitError] = errors.ShapeError
    shapes: types.Shapes | None = None

    def verify(self, env: Mapping[Atom, int]) -> bool:
        """Raise an error if the condition does not hold. False if `env` lacks one of its sizes."""
        try:
            left, right = (side(env) for side in self._sides)
        except KeyError:
            return False
        if left == right or (self.kind == "<=" and left < right):
            return True
        if self.kind == "<=":
            raise self.error(self.what.format(left=left, right=right), where=self.where)
        if self.shapes is not None:
            whole = [[_shown(dim, env) for dim in shape] for shape in self.shapes]
            raise types.other_shape(self.what, whole, where=self.where)
        shown = [f"{n}" if isinstance(d, int) else f"{n} ({d})" for n, d in ((left, self.left), (right, self.right))]
        raise self.error(f"{self.what} must be equal", got=" and ".join(shown), where=self.where)

    @cached_property
    def _sides(self) -> list[Callable[[Mapping[Atom, int]], int]]:
        """What computes both dimensions: in every call if they are computed sizes, else for new shapes alone."""
        compute = types.formula if self.on_values else partial(partial, types.evaluate)
        return [compute(side) for side in (self.left, self.right)]

    def atoms(self) -> set[Atom]:
        """The sizes in the condition."""
        return set(types.atoms(self.left, self.right))

    @property
    def on_values(self) -> bool:
        """Whether it is about computed sizes."""
        return any(atom.kind == "value" for atom in self.atoms())


def _shown(dim: Dimension, env: Mapping[Atom, int]) -> object:
    """A dimension as an error shows it: its number if that is known, else its formula."""
    try:
        return types.evaluate(dim, env)
    except KeyError:
        return dim


def inferred(node: Node) -> tuple[tuple[types.Type, ...], list[Check]]:
    """The types of a node's results, inferred anew, and the conditions that they rely on. The graph of a scan or an
    ifelse is left out."""
    with types.collecting() as found:
        kinds = ir.inferred_types(node)
    return kinds, [_check(item, node.where) for item in found]


def _check(found: types.Condition, where: str) -> Check:
    return Check(found.kind, found.left, found.right, found.what, where, error=found.error, shapes=found.shapes)


_of_graphs: weakref.WeakKeyDictionary[Graph, list[Check]] = weakref.WeakKeyDictionary()


def conditions(outputs: Iterable[Node]) -> list[Check]:
    """All conditions of a graph, those inside scans included, in terms of sizes outside of the scans if possible."""
    return _distinct(ir.walk(outputs))


def _of_node(node: Node) -> list[Check]:
    if not node.operands and node.op is not IOTA and "body" not in node.params:
        return []
    checks = inferred(node)[1]
    body = node.params.get("body")
    if isinstance(body, Graph):
        inside = _of_graph(body)
        if node.op is IFELSE:  # computed sizes in a branch: `rewrite.unfit` checks those of the branch that is taken
            inside = [check for check in inside if not check.on_values]
        outside = {body.inputs[i].dim_atom: dim for i, dim in node.params["sizes"]}
        checks += [_outward(check, body, outside) for check in inside]
    return checks


def _of_graph(body: Graph) -> list[Check]:
    found = _of_graphs.get(body)
    if found is None:
        found = _of_graphs[body] = _distinct(body.nodes())
    return found


def _outward(check: Check, body: Graph, outside: Mapping[Atom, Dimension]) -> Check:
    """A condition of a body, in terms of sizes outside of the scan. If that is impossible, it is marked with the
    body."""
    if check.body is not None:
        return check
    inside = [atom for atom in check.atoms() if atom.kind == "value" and atom not in outside]
    if not all(atom.node.is_closed for atom in inside):
        return replace(check, body=body)
    left, right = (types.substitute(dim, outside) for dim in (check.left, check.right))
    return replace(check, left=left, right=right)


def _distinct(nodes: Iterable[Node]) -> list[Check]:
    """The conditions of some nodes. Of equal conditions, the first is kept."""
    unlike: dict[tuple[object, ...], Node] = {}  # what has equal parameters and types has equal conditions
    for node in nodes:
        unlike.setdefault((node.applied, *[operand.types for operand in node.operands]), node)
    kept: dict[Any, Check] = {}
    for check in (check for node in unlike.values() for check in _of_node(node)):
        if not _certain(check):
            kept.setdefault((check.kind, check.left, check.right, check.body), check)
    return list(kept.values())


def _certain(check: Check) -> bool:
    """Whether a condition holds whatever the sizes are."""
    difference = check.right - check.left
    return difference == 0 if check.kind == "==" else types.not_negative(difference)


def check(checks: Iterable[Check], env: Mapping[Atom, int]) -> list[Check]:
    """Raise the error of the first condition that does not hold. Returns the conditions that are still open, because
    `env` lacks a size. A condition with a `body` stays open: only the steps of that body know its sizes."""
    return [item for item in checks if item.body is not None or not item.verify(env)]
