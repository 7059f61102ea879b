"""The passes over graphs, in order."""

import os
from collections.abc import Callable, Iterable, Sequence

from scanjit.ir import Node, replace, sizes_are_given, walk_inside
from scanjit.records import record
from scanjit.rewrite import algebra, systems
from scanjit.rewrite.branches import share, sizes_outside
from scanjit.rewrite.end import without_end
from scanjit.rewrite.engine import Note, Rewriter
from scanjit.rewrite.filters import filters_in_lanes
from scanjit.rewrite.guards import guards
from scanjit.rewrite.narrow import in_packs
from scanjit.rewrite.rules import RULES
from scanjit.rewrite.scan_apart import apart
from scanjit.rewrite.scan_count import counters
from scanjit.rewrite.scan_entries import by_entries
from scanjit.rewrite.scan_hoist import hoist
from scanjit.rewrite.scan_lanes import changes_in_lanes
from scanjit.rewrite.scan_last import last_rows
from scanjit.rewrite.scan_log import log_sums
from scanjit.rewrite.scan_merge import merge
from scanjit.rewrite.scan_post import hoist_post
from scanjit.rewrite.scan_pre import hoist_pre
from scanjit.rewrite.scan_prune import prune
from scanjit.rewrite.scan_save import save
from scanjit.rewrite.scan_sink import sink
from scanjit.rewrite.scan_solve import early_quotients
from scanjit.rewrite.scan_steps import all_own_lengths, own_lengths
from scanjit.rewrite.transposes import in_order_of_loops
from scanjit.rewrite.verify import verify
from scanjit.rewrite.windows import push_slices

Pass = Callable[[list[Node], list[Note]], list[Node]]

STRAIGHT_LINES = systems.small | RULES
"""The table that also writes out the solutions of small linear systems."""

VERIFY = os.environ.get("SCANJIT_VERIFY", "0") not in ("", "0")
"""Whether every pass is followed by the verifier. The tests switch it on."""


@record
class Rewritten:
    """Rewritten outputs, and what was done."""

    outputs: list[Node]
    notes: list[Note]


def simplify(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Apply the rules of local algebra until none applies, in steps and branches too."""
    return Rewriter(RULES)(outputs)


def factors(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Solve large linear systems by factors, which a loop and its gradient then share."""
    return Rewriter(systems.large)(outputs)


def straight_lines(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Write the solution of a small linear system out, entry by entry."""
    small = any(map(systems.small.of, walk_inside(outputs)))
    return Rewriter(STRAIGHT_LINES if small else RULES)(outputs)


def lower(outputs: Sequence[Node]) -> list[Node]:
    """Bring a graph into the form that can be scheduled. Systems of equations become the ops that compute them, loops
    inside steps count their steps, and sizes that branches use are computed before the branches."""
    nodes = Rewriter(systems.small | systems.large | algebra.taken_apart)(outputs)
    return nodes if sizes_are_given(nodes) else sizes_outside(all_own_lengths(nodes), [])


LOOPS: tuple[tuple[str, Pass], ...] = (
    ("merge", merge),  # before a pass changes either: the loop of a value and its copy in the gradient become one
    ("last_rows", last_rows),
    ("prune", prune),
    ("hoist", hoist),  # values that never change leave the loops
    ("save", save),  # needs the forward and the reverse loop as they were written
    ("prune", prune),
    ("simplify", simplify),
    ("merge", merge),  # `save` put copies of inner loops into the outer forward loop
    ("hoist_post", hoist_post),  # values that feed no carry, and sums over time
    ("save", save),  # values that the forward loop stores since `hoist_post`
    ("counters", counters),  # after `save`, as `apart`; before `apart`, which would give them a loop of their own
    ("apart", apart),  # after `save`, which compares the loop of a gradient with the forward loop
    ("hoist_pre", hoist_pre),  # values that need no carry
    ("simplify", simplify),
    ("push_slices", push_slices),  # after the fission, which moves whole products
    ("simplify", simplify),
    ("last_rows", last_rows),
    ("sink", sink),  # sequences that are cheaper to make in the loop
    ("prune", prune),
    ("in_order_of_loops", in_order_of_loops),  # after all that adds or takes what loops read and store
    ("simplify", simplify),
    ("log_sums", log_sums),  # after all passes that compare the loop of a gradient with the forward loop
    ("early_quotients", early_quotients),  # before `straight_lines`, which writes out all other systems
    ("straight_lines", straight_lines),  # after all passes that treat a system as one op, before steps are by entries
    ("changes_in_lanes", changes_in_lanes),  # after all passes that know changes at places
    ("by_entries", by_entries),  # last: all others treat a vector as one value
    ("simplify", simplify),
    ("prune", prune),
    ("filters_in_lanes", filters_in_lanes),  # after all passes that move or join products
    ("in_packs", in_packs),  # after all passes that know products, but guards: packs save more
    ("guards", guards),  # products that masks make needless
)
"""The names and the passes of `loops`."""


def loops(outputs: list[Node], notes: list[Note]) -> list[Node]:
    """Apply the passes of `LOOPS`. They do not see the elementwise ops at the end of a graph, such as the updates of an
    optimizer, which are often most of it."""
    roots = without_end(outputs)
    return replace(outputs, dict(zip(roots, passed(LOOPS, roots, notes), strict=True)))


PIPELINE: tuple[tuple[str, Pass], ...] = (
    ("share", share),  # first, while equal computations inside and outside of branches are still equal nodes
    ("factors", factors),  # before anything is decided about what a gradient reads
    ("simplify", simplify),
    ("own_lengths", own_lengths),  # before `sizes_outside`: a loop in a branch may compute its sizes
    ("sizes_outside", sizes_outside),
    ("loops", loops),
)
"""The names and the passes `(outputs, notes) -> outputs`."""


def passed(passes: Iterable[tuple[str, Pass]], outputs: Sequence[Node], notes: list[Note]) -> list[Node]:
    """The outputs after some passes, each of which is verified if verification is on."""
    nodes = list(outputs)
    for name, function in passes:
        before, nodes = nodes, function(nodes, notes)
        if VERIFY:
            verify(before, nodes, name)
    return nodes


def run(outputs: Sequence[Node]) -> Rewritten:
    """Rewrite a graph into one with equal outputs that is computed faster.

    Parameters
    ----------
    outputs : the nodes to compute.

    Returns
    -------
    Rewritten
        Outputs of the same types, and a note for each change of a loop, and for each change that was asked for but not
        made.

    Raises
    ------
    InternalError
        If verification is on and a pass made an invalid graph.
    """
    notes: list[Note] = []
    return Rewritten(passed(PIPELINE, outputs, notes), notes)
