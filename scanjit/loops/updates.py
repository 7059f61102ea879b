"""Updates of shared variables that a step returns, as in Theano: carries that begin with the variables' values."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scanjit.errors import ScanError
from scanjit.ir import SHARED, Node, as_node, declared, is_symbol, new_input, replace
from scanjit.ops.parts import as_stored, of_stored
from scanjit.ops.promotion import cast
from scanjit.records import record


@record
class Update:
    """One shared variable in a loop: its value before the first step, its symbol in a step, and its value after the
    step."""

    initial: Node
    symbol: Node
    new: Node

    @property
    def variable(self) -> Any:
        """The shared variable."""
        return self.initial.params["variable"]

    def declared(self, value: Node) -> Node:
        """A value of the carry, of the type that the variable has for users."""
        return of_stored(value) if self.variable.type.kind.is_complex else value


def is_updates(value: Any) -> bool:
    """Whether a value is a dictionary from variables to their new values."""
    return isinstance(value, Mapping) and all(map(is_symbol, value))


def entered(given: Mapping[Any, Any], results: Sequence[Node], where: str) -> tuple[list[Update], list[Node]]:
    """The updates of a step, and the results of the step with each read of such a variable replaced by its carry."""
    initial = [_shared(variable, where) for variable in given]
    symbols = [new_input(node.type, node.name) for node in initial]
    values = [_fitting(node, value, where) for node, value in zip(initial, given.values(), strict=True)]
    read = iter(replace([*values, *results], dict(zip(initial, symbols, strict=True))))
    return [Update(old, symbol, next(read)) for old, symbol in zip(initial, symbols, strict=True)], list(read)


def _shared(variable: Any, where: str) -> Node:
    """The node that reads a shared variable."""
    node = as_stored(as_node(variable))
    if node.op is not SHARED:
        raise ScanError(
            "the step returned an update of something that is no shared variable",
            got=repr(node),
            expected="{variable: new value} of variables made with sj.shared",
            fix="make it an output with an initial value, or a shared variable",
            where=where,
        )
    return node


def _fitting(old: Node, value: Any, where: str) -> Node:
    """The new value of a variable, in the variable's dtype."""
    variable, kind = old.params["variable"], declared(old)
    node = as_node(value if is_symbol(value) else variable.as_declared(value))
    known = zip(node.type.shape, kind.shape, strict=False)
    differ = node.ndim != kind.ndim or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in known)
    if differ or not np.can_cast(node.dtype, kind.dtype, "safe"):
        raise ScanError(
            f"the step's update of {variable.label} does not fit it",
            got=node.type,
            expected=f"{kind}, as its value",
            fix="cast it with .astype(...), or give it the variable's shape",
            where=where,
        )
    return as_stored(cast(node, kind.dtype))
