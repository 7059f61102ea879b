"""A graph over single examples, turned into the graph over batches of them.

`vmap` uses it for batches of examples. Loop fission uses it for steps: it turns code for one step into code for all
steps.
"""

from collections.abc import Callable, Mapping, Sequence

from scanjit import errors, ir, types
from scanjit.ir import PART, Graph, Node, free_variables, parts, rebuild, replace, walk
from scanjit.ops.stretch import all_over_batch
from scanjit.types import Atom, Dimension

Batched = tuple[Node, bool]
"""A node and whether it has the axis of the batch (first)."""


def batch_graph(outputs: Sequence[Node], batched: Mapping[Node, Node], size: Dimension) -> list[tuple[Node, bool]]:
    """The outputs over a batch.

    Parameters
    ----------
    outputs : nodes over one example.
    batched : a mapping from some nodes to their batches: nodes with one more axis, the batch, in front.
    size : the size of the batch.

    Returns
    -------
    list of (Node, bool)
        Each output, and whether it has a batch axis (in front). Outputs that do not depend on a batched node stay as
        they are, without one.
    """
    known: dict[Node, Batched] = {node: (new, True) for node, new in batched.items()}
    several: dict[Node, list[Batched]] = {}
    dims: dict[Atom, Dimension] = {}
    for node in walk(outputs, batched):
        if node in known:
            continue
        if node.several:
            several[node] = _batch(node, known, dims, size)
            continue
        if node.op is PART:
            new, flag = several[node.args[0]][node.params["index"]]
        else:
            ((new, flag),) = _batch(node, known, dims, size)
        known[node] = new, flag
        if node.dim_atom is not None and not flag and new is not node:
            dims[node.dim_atom] = ir.as_dim(new)
    return [known[output] for output in outputs]


def batch_or_loop(outputs: Sequence[Node], batched: Mapping[Node, Node], size: Dimension) -> list[tuple[Node, bool]]:
    """As `batch_graph`. If sizes inside differ between the examples, a loop computes one example after the other."""
    try:
        return batch_graph(outputs, batched, size)
    except errors.NotSupportedError as error:
        try:
            return [(result, True) for result in _by_loop(outputs, batched, size)]
        except errors.ScanError:  # the results themselves differ in size
            raise error from None


def _batch(node: Node, known: Mapping[Node, Batched], dims: Mapping[Atom, Dimension], size: Dimension) -> list[Batched]:
    """The results of a node over a batch."""
    args = [known[arg] for arg in node.args]
    if not any(flag for _, flag in args):
        new = rebuild(node, tuple(new for new, _ in args), dims)
        return [(part, False) for part in (parts(new) if node.several else [new])]
    for sized in node.applied.sizes:
        if known[sized][1]:
            raise errors.NotSupportedError(
                "a size that differs between the examples of a batch, or the steps of a loop",
                got=f"{sized!r}, used by {node!r}",
                fix="use a mask over the full size: sj.where(sj.arange(n) < k, x, 0); in a loop also mode='reference'",
                where=node.where,
            )
    operands, flags = [new for new, _ in args[: node.arity]], [flag for _, flag in args[: node.arity]]
    with errors.located(node.where):
        params = {k: ir.map_dims(v, lambda d: types.substitute(d, dims)) for k, v in node.params.items()}
        if node.op.batch is not None:
            found = node.op.batch(operands, flags, size, **params)
        elif node.op.batch_params is not None:
            found = node.op(*all_over_batch(operands, flags, size), **node.op.batch_params(size, **params)), True
        else:
            found = _node_by_loop(node, operands, flags, dims, size)
    results = found if isinstance(found, list) else [found]
    _verify(node, results)
    return results


def _verify(node: Node, results: Sequence[Batched]) -> None:
    for type_, (new, flag) in zip(node.types, results, strict=True):
        if new.dtype != type_.dtype or new.ndim != type_.ndim + flag:
            raise errors.InternalError(
                f"{node.op.name} over a batch has another type", got=new.type, expected=type_, where=node.where
            )


def _node_by_loop(
    node: Node, operands: Sequence[Node], flags: Sequence[bool], dims: Mapping[Atom, Dimension], size: Dimension
) -> list[Batched]:
    """Batch an op without a batching rule, by a loop over the examples."""
    pairs = list(zip(node.operands, operands, flags, strict=True))
    rows = {old: ir.new_input(old.type) for old, _, flag in pairs if flag}
    sequences = {rows[old]: new for old, new, flag in pairs if flag}
    rest = {old: new for old, new, flag in pairs if not flag}
    results = _by_loop(replace(parts(node) if node.several else [node], {**rest, **rows}, dims), sequences, size)
    return [(result, True) for result in results]


Repeat = Callable[[Graph, Sequence[Node], Sequence[Node], Dimension], Node]
"""`loop(body, rows, constants, size)` runs the body for each of `size` rows."""
_loops: list[Repeat] = []


def loops_by(loop: Repeat) -> Repeat:
    """Decorator: register the function that makes loops over examples. There is one, in `scan.py`, which imports this
    file."""
    _loops.append(loop)
    return loop


def _by_loop(outputs: Sequence[Node], batched: Mapping[Node, Node], size: Dimension) -> tuple[Node, ...]:
    """The outputs over a batch, by a loop over the examples."""
    (loop,), consts = _loops, free_variables(outputs, batched)
    return parts(loop(Graph.of([*batched, *consts], outputs), list(batched.values()), consts, size))
