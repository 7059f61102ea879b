"""Checks the arguments that a user gives to `function`: inputs, outputs, updates of shared variables, and
replacements."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scanjit import errors, ir
from scanjit.ir import INPUT, SHARED, Node, declared, is_symbol
from scanjit.loops.structure import STORED, Tree, flatten
from scanjit.ops.parts import as_stored, is_complex, origin_of
from scanjit.ops.promotion import cast
from scanjit.runtime.arguments import Slot
from scanjit.runtime.function_graph import FunctionGraph
from scanjit.runtime.shared import SharedVariable


def graph_of(inputs: Any, outputs: Any, updates: Any, givens: Any) -> FunctionGraph:
    """The graph of a function, from what the user gave; see `function`. Errors name the part that is wrong."""
    symbols = _inputs(inputs)
    leaves, tree = _outputs(outputs)
    new_values = _updates(updates)
    symbols, roots = _with_givens(symbols, [*leaves, *new_values.values()], _givens(givens))
    leaves, fresh = roots[: len(leaves)], roots[len(leaves) :]
    new_values = _with_defaults(leaves, dict(zip(new_values, fresh, strict=True)))
    updated = tuple((variable, _fitting(variable, node)) for variable, node in new_values.items())
    return FunctionGraph(tuple(symbols), tuple(leaves), tree, updated)


def _inputs(given: Any) -> list[Node]:
    if is_symbol(given) or not isinstance(given, list | tuple):
        raise errors.ArgumentError("the inputs of a function are a list of symbols", got=repr(given), fix="write [x]")
    seen: dict[Node, int] = {}
    names: dict[str, int] = {}
    for i, node in enumerate(given):
        if isinstance(node, Node) and is_complex(node):
            stored = origin_of(node)
            node = stored if stored is not None and stored.op is INPUT and declared(stored) == node.type else node
        if not isinstance(node, Node) or node.op is not INPUT:
            raise errors.ArgumentError(
                f"input {i} is not a symbol that a function can take a value for",
                got=repr(node),
                expected="a symbol made by sj.tensor, sj.vector, ...",
                fix=_no_input(node),
            )
        if node in seen:
            raise errors.ArgumentError(f"inputs {seen[node]} and {i} are the same symbol", got=repr(node))
        if node.name and node.name in names:
            raise errors.ArgumentError(
                f"inputs {names[node.name]} and {i} have the same name",
                got=repr(node.name),
                fix="give them different names: they are also the keywords of the function",
            )
        seen[node] = i
        if node.name:
            names[node.name] = i
    return list(seen)


def _no_input(value: Any) -> str:
    if hasattr(value, "__scanjit_node__"):
        return "a shared variable is read by itself: leave it out (or replace it with `givens`)"
    if isinstance(value, Node):
        return "to replace the value of an expression, use `givens`"
    if hasattr(value, "input_var"):
        return "of an InputLayer, give its input_var"
    return "declare an input with sj.tensor(shape, dtype, name)"


def _outputs(given: Any) -> tuple[list[Node], Tree | None]:
    if given is None:
        return [], None
    leaves, tree = flatten(given, whole=True)
    nodes = []
    for path, leaf in zip(tree.paths(), leaves, strict=True):
        node = _node(leaf, f"output{path}")
        if node.several:
            raise errors.InternalError("an op with several results is no output: take its parts", got=repr(node))
        nodes.append(node)
    tree = tree.with_leaves([STORED if is_complex(node) else Tree() for node in nodes])
    return list(map(as_stored, nodes)), tree


def _node(value: Any, label: str) -> Node:
    try:
        return ir.as_node(value)
    except errors.ScanjitError:
        raise errors.ArgumentError(
            f"{label} is not an expression", got=f"{value!r} ({type(value).__name__})", expected="a symbol or an array"
        ) from None


def _pairs(given: Any, what: str) -> list[tuple[Any, Any]]:
    if given is None:
        return []
    try:
        return [(key, value) for key, value in (given.items() if isinstance(given, Mapping) else given)]
    except (TypeError, ValueError, errors.ScanjitError):
        raise errors.ArgumentError(
            f"{what} are a dict or a list of pairs", got=repr(given), fix=f"write {what}={{variable: expression}}"
        ) from None


def _updates(given: Any) -> dict[SharedVariable, Node]:
    """The new values as nodes. A value that is no symbol takes the variable's dtype, as an argument would."""
    found: dict[SharedVariable, Node] = {}
    for key, value in _pairs(given, "updates"):
        node = origin_of(key) if isinstance(key, Node) and is_complex(key) else key
        variable = node.params["variable"] if isinstance(node, Node) and node.op is SHARED else key
        if not isinstance(variable, SharedVariable):
            raise errors.ArgumentError(
                "only shared variables have updates", got=repr(key), fix="make it sj.shared(...)"
            )
        if variable in found:
            raise errors.ArgumentError(f"{variable.label} has two updates", got=repr(variable))
        found[variable] = ir.as_node(value if is_symbol(value) else variable.as_declared(value))
    return dict(sorted(found.items(), key=lambda item: item[0].serial))


def _with_defaults(outputs: Sequence[Node], new_values: dict[SharedVariable, Node]) -> dict[SharedVariable, Node]:
    """The new values, with those of variables that are read and have an update by default."""
    found = dict(new_values)
    for node in ir.walk([*outputs, *new_values.values()]):
        if node.op is SHARED:
            variable = node.params["variable"]
            if variable.default_update is not None and variable not in found:
                found[variable] = variable.default_update(node)
    return dict(sorted(found.items(), key=lambda item: item[0].serial))


def _fitting(variable: SharedVariable, node: Node) -> Node:
    """The new value in the variable's dtype. Raises an error if it certainly does not fit the variable."""
    kind, new = variable.type, node.type
    if not np.can_cast(new.dtype, kind.dtype, "safe"):
        raise errors.DtypeError(
            f"the update of {variable.label} has a dtype that does not fit it",
            got=new,
            expected=kind,
            fix=f"cast it: value.astype({str(kind.dtype)!r}), or look for the operand that is {new.dtype}",
            where=node.where,
        )
    fits = new.ndim == kind.ndim and all(
        a == b for a, b in zip(new.shape, kind.shape, strict=True) if isinstance(a, int) and isinstance(b, int)
    )
    if not fits:
        raise errors.ShapeError(
            f"the update of {variable.label} has a shape that does not fit it", got=new, expected=kind, where=node.where
        )
    return as_stored(cast(node, kind.dtype))


def _givens(given: Any) -> dict[Node, Node]:
    found: dict[Node, Node] = {}
    for key, value in _pairs(given, "givens"):
        if not is_symbol(key):
            raise errors.ArgumentError("givens replace symbols", got=repr(key), expected="a symbol as the key")
        old = ir.as_node(key)
        if old in found or (is_complex(old) and old.args[0] in found):
            raise errors.ArgumentError("a symbol is replaced twice in givens", got=repr(old))
        if is_symbol(value):
            new = ir.as_node(value)
        else:
            new = ir.constant(Slot(f"the replacement of {old!r}", old.type).as_declared(value))
        if not np.can_cast(new.dtype, old.dtype, "safe") or new.ndim != old.ndim:
            raise errors.ArgumentError(
                "the replacement of a symbol in givens has another type than it", got=repr(new), expected=repr(old)
            )
        new = cast(new, old.dtype)
        found |= dict(zip(old.args, new.args, strict=True)) if is_complex(old) else {old: new}
    return found


def _with_givens(inputs: list[Node], roots: list[Node], givens: dict[Node, Node]) -> tuple[list[Node], list[Node]]:
    """Inputs and roots after the replacements. An input changes if a size in its type is replaced."""
    if not givens:
        return inputs, roots
    kept = [node for node in inputs if node not in givens]
    new = ir.renamed([*roots, *kept], givens)
    renamed = dict(zip(kept, new[len(roots) :], strict=True))
    return [renamed.get(node, node) for node in inputs], new[: len(roots)]
