"""Static scales: the sizes of the numbers that enter the products of a graph, measured on typical data.

`watched` makes, for each product, the largest absolute values of everything that changes from call to call. A function
of these runs on the data. `with_narrow_products` then uses its results as scales.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from scanjit.ir import CONSTANT, ORIGINS, SHARED, SIZE, Node, apply, constant, dependents, replace, walk
from scanjit.ops.elementwise import ABS, MAXIMUM
from scanjit.ops.extremes import SUPREMUM
from scanjit.ops.scan import SCAN
from scanjit.rewrite.loop import OpenScan
from scanjit.rewrite.narrow import FORMATS, MeasuredProduct, Place, is_to_narrow

Watch = Callable[[Place, Collection[Node]], Sequence[Node]]
"""A function of a product, and of the nodes that change from call to call or from step to step, that returns the
scalars to watch."""


def watched(outputs: Sequence[Node], watch: Watch) -> list[tuple[Place, list[Node]]]:
    """The largest values, over all steps, of the watched scalars of each product that is to be narrow. Products in
    branches are left out."""
    changing = [node for node in walk(outputs) if node.op in ORIGINS and node.op not in (SHARED, CONSTANT, SIZE)]
    return [(place, list(found)) for place, found in _level(outputs, changing, watch, ())]


def _level(
    outputs: Sequence[Node], changing: Iterable[Node], watch: Watch, path: tuple[Node, ...]
) -> list[tuple[Place, Sequence[Node]]]:
    order = walk(outputs)
    varying = dependents(order, changing)
    found: list[tuple[Place, Sequence[Node]]] = []
    for node in order:
        if is_to_narrow(node):
            found.append(((path, node), watch((path, node), varying)))
        elif node.op is SCAN:
            found += _over_steps(node, varying, watch, path)
    return found


def _over_steps(
    scan: Node, varying: Collection[Node], watch: Watch, path: tuple[Node, ...]
) -> list[tuple[Place, Sequence[Node]]]:
    """The largest values over all steps of the watched scalars of a step. They become carries of the loop."""
    loop, body = OpenScan.of(scan), scan.params["body"]
    fixed = {
        inner
        for operand, inner in zip(scan.operands, body.inputs, strict=True)
        if operand not in varying and operand in loop.consts
    }
    inside = _level(body.outputs, [inner for inner in body.inputs if inner not in fixed], watch, (*path, scan))
    zero = constant(np.float32(0))
    carries = [
        (place, [loop.add_carry(zero, _larger(value)) for value in replace(list(values), loop.same)])
        for place, values in inside
    ]
    finished = loop.finish()
    return [(place, [finished.carry(carry) for carry in own]) for place, own in carries]


def _larger(value: Node) -> Callable[[Node], Node]:
    return lambda before: apply(MAXIMUM, before, value)


def largest(x: Node) -> Node:
    """The largest absolute value of a tensor; 0 of an empty one."""
    return SUPREMUM(apply(ABS, x), axes=tuple(range(x.ndim)))


def operands_that_vary(place: Place, varying: Collection[Node]) -> list[Node]:
    """Watches both operands of a product. An operand that is the same in all calls, as weights are, gives 0."""
    return [largest(x) if x in varying else constant(np.float32(0)) for x in place[1].operands]


def errors_with(measured: Mapping[Place, MeasuredProduct]) -> Watch:
    """Watches the error that each product gets with the measured scales, and its results."""

    def watch(place: Place, varying: Collection[Node]) -> list[Node]:
        exact = place[1]
        return [largest(FORMATS["int8"](exact, measured[place]) - exact), largest(exact)]

    return watch
