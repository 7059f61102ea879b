"""The steps of scans and the branches of ifelses, with all sizes written as sizes outside of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scanjit import ir, types
from scanjit.errors import NotSupportedError
from scanjit.ir import Node
from scanjit.ops.branch import IFELSE
from scanjit.ops.promotion import cast
from scanjit.ops.roles import Roles
from scanjit.records import record, replace


@record
class LoweredStep:
    """A step of a scan: it computes the `new` carries, the outputs `ys`, and whether to `stop`, from the `carries`
    before it, from `rows` of the sequences, and from constants."""

    carries: Sequence[Node]
    rows: Sequence[Node]
    consts: Sequence[Node]
    new: Sequence[Node]
    ys: Sequence[Node]
    stop: Node | None

    @classmethod
    def of(cls, node: Node) -> LoweredStep:
        """The step of a scan."""
        roles, (inputs, outputs) = Roles.of(node), open_body(node)
        return cls(*roles.split(inputs), *roles.split_results(outputs))

    @property
    def results(self) -> list[Node]:
        """All that it computes."""
        return [*self.new, *self.ys, *([] if self.stop is None else [self.stop])]

    def replaced(self, mapping: Mapping[Node, Node]) -> LoweredStep:
        """The same step with other nodes for some of its rows."""
        results = iter(ir.replace(self.results, mapping))
        new, ys = ([next(results) for _ in old] for old in (self.new, self.ys))
        return replace(self, new=new, ys=ys, stop=next(results, None))


def open_body(node: Node) -> tuple[list[Node], list[Node]]:
    """The inputs and outputs of the body of a scan or an ifelse. A size that depends on a constant of the body becomes
    the size outside.

    In `scan(lambda h, n: h + zeros(n).sum(), ...)`, `n` is a constant of the scan. The step's `n` becomes the node
    outside, whose value is a size there.
    """
    graph: ir.Graph = node.params["body"]
    inputs, outputs = list(graph.inputs), list(graph.outputs)
    if node.params["sizes"]:
        dims = {graph.inputs[i].dim_atom: dim for i, dim in node.params["sizes"]}
        inputs = [ir.new_input(ir.map_dims(n.type, lambda d: types.substitute(d, dims)), n.name) for n in graph.inputs]
        mapping = dict(zip(graph.inputs, inputs, strict=True))
        for i, dim in node.params["sizes"]:
            mapping[graph.inputs[i]] = cast(ir.dim_node(dim), graph.inputs[i].dtype)
        outputs = ir.replace(graph.outputs, mapping, dims)
    _refuse_ragged_steps(inputs, outputs)
    return inputs, outputs


def _refuse_ragged_steps(inputs: Iterable[Node], outputs: Sequence[Node]) -> None:
    """Raise an error if the size of a node, or the place where it reads, depends on a value that the body computes."""
    given = set(inputs)
    for node in ir.walk(outputs):
        sized = [*ir.dim_nodes({"types": node.types}), *node.applied.sizes]
        if sized and not given.isdisjoint(ir.walk(sized)):
            if node.op is IFELSE:  # the node in the branch tells more
                _refuse_ragged_steps(node.params["body"].inputs, node.params["body"].outputs)
            raise NotSupportedError(
                "a size inside a step of a scan depends on a value computed in that step",
                got=", ".join(map(str, node.types)),
                where=node.where,
                fix="give the size a limit: n_steps=sj.minimum(n, 100), or max_steps of a while_loop; or use a mask "
                "over the full size, or mode='reference'; a slice may move if its size is known: x[t : t + 3]",
            )
