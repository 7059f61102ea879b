"""A loop of elementwise ops becomes several loops if its carries have several shapes.

A loop whose carries have one shape is one nest. The carries stay in registers for all steps, and the steps of a linear
recurrence fill the lanes of vectors. If the carries have several shapes, each step runs several nests, which costs many
times as much. An example is a scalar recurrence together with its forward derivatives by twenty parameters: the
derivatives need the value, but the value needs no derivative. If all carries are short, as with three parameters, it
takes longer to store and to load the values of all steps.
"""

from scanjit import errors
from scanjit.ir import Node, walk
from scanjit.rewrite.alike import change_loops
from scanjit.rewrite.engine import Note
from scanjit.rewrite.loop import OpenCarry, OpenScan, Result, Y
from scanjit.rewrite.scan_hoist import frontier
from scanjit.rewrite.split import is_heavy, is_small
from scanjit.types import Dimension

Shape = tuple[Dimension, ...]


def apart(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Give small carries of one shape a loop of their own, before the loop of the other carries, if they need no
    carries of another shape. The other loop reads their values of each step. Inner loops come first."""
    return change_loops(outputs, notes, _parted, again=True)


def _parted(scan: Node, notes: list[Note]) -> dict[int, Node] | None:
    loop = OpenScan.of(scan)
    chosen = _alone(loop)
    if not chosen:
        return None
    symbols = [c.inner for c in chosen]
    made = {*symbols, *walk([c.new for c in chosen])} & loop.depends(symbols)
    with errors.located(scan.where):
        first = OpenScan(scan, loop.length, chosen, dict(loop.xs), dict(loop.consts), None, list[Result](chosen))
        moved = [r for r in loop.results if r in chosen or (isinstance(r, Y) and r.node in made)]
        results, loop.results = loop.results, [r for r in loop.results if r not in moved]
        loop.carries = [c for c in loop.carries if c not in chosen]
        read = frontier(loop, made)
        for node in dict.fromkeys([*read, *(r.node for r in moved if isinstance(r, Y))]):
            first.add_y(node)
        done = first.finish()
        loop.results = [done.result(r) if r in moved else r for r in results]
        loop.substitute({node: loop.x(done.y(node)) for node in read})
        notes.append(Note("apart", scan.where, "carries that need no others have a loop of their own"))
        return loop.finish().parts()


def _alone(loop: OpenScan) -> list[OpenCarry]:
    """The small carries of one shape that need no carries of another shape, if the loop has larger carries of another
    shape too. There are none if a step does more than elementwise ops: such a loop would not become one nest."""
    shapes = dict.fromkeys(c.inner.type.shape for c in loop.carries)
    order = walk(loop.outputs)
    if len(shapes) < 2 or loop.stop is not None or all(is_small(c.inner) for c in loop.carries):
        return []
    if any(c.lag is not None for c in loop.carries) or any(is_heavy(node) for node in order if node.args):
        return []
    needed: dict[Node, set[Shape]] = {c.inner: {c.inner.type.shape} for c in loop.carries}
    for node in order:
        if node not in needed:
            needed[node] = set().union(*(needed[arg] for arg in node.args))
    for shape in shapes:
        group = [c for c in loop.carries if c.inner.type.shape == shape]
        if is_small(group[0].inner) and all(needed[c.new] <= {shape} for c in group):
            return group
    return []
