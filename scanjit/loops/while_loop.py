"""`while_loop`: a loop whose length its own state decides."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, overload

from scanjit import errors, ir, types
from scanjit.errors import ScanError
from scanjit.ir import Graph, Node, apply, with_params
from scanjit.loops import entries
from scanjit.loops.scan import build
from scanjit.loops.step import check_takes, until
from scanjit.loops.stretches import in_stretches
from scanjit.loops.structure import Mismatch, Tree, describe, flatten, function_location
from scanjit.ops.elementwise import INVERT, WHERE
from scanjit.ops.expect import VIA
from scanjit.ops.probe import ASSERT
from scanjit.ops.scan import scan_node
from scanjit.symbol import Tensor
from scanjit.tensor.looping import check_callable
from scanjit.types import Dimension

S = TypeVar("S")


_Checkpoint = int | Literal["sqrt", "all"] | None


@overload
def while_loop(
    cond: Callable[[Any], Any],
    body: Callable[[Any], Tensor],
    init: Any,
    max_steps: int | None = ...,
    checkpoint: _Checkpoint = ...,
) -> Node: ...
@overload
def while_loop(
    cond: Callable[[Any], Any],
    body: Callable[[Any], S],
    init: Any,
    max_steps: int | None = ...,
    checkpoint: _Checkpoint = ...,
) -> S: ...
def while_loop(
    cond: Callable[[Any], Any],
    body: Callable[[Any], Any],
    init: Any,
    max_steps: int | None = None,
    checkpoint: _Checkpoint = None,
) -> Any:
    """Repeat `state = body(state)` while `cond(state)` is true.

    Parameters
    ----------
    cond : callable
        Gets the state, returns a boolean scalar.
    body : callable
        Gets the state, returns the next one: the same structure, dtypes and shapes.
    init : tensor, or structure of tensors
        The first state. A Python number takes the dtype of what `body` returns.
    max_steps : int or integer scalar, optional
        A loop that needs more steps than this is an error. The gradient stores a state for each of them. Without it,
        the gradient first counts the steps, then runs them again and stores as many states as there are.
    checkpoint : None, "sqrt", "all" or int
        What is stored for the gradient, as in `scan`: with "sqrt" or an int k, a state every so many steps. The
        gradient computes the steps between again. For bounds that are large, and states that are.

    Returns
    -------
    Node, or the structure of `init`
        The last state: the first for which `cond` is false.

    Raises
    ------
    AssertError
        When a function runs: if `cond` still holds after `max_steps` steps (not where nothing needs the state, nor in
        a branch of `ifelse` that is not taken). In mode="reference" at once; compiled functions go through to the end
        first. Shared variables stay as they were.

    Notes
    -----
    A loop that is to stop after so many steps and go on with what it has says so in its condition, and counts.

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.scalar("x")
    >>> double = sj.while_loop(lambda x: x < 100.0, lambda x: x * 2.0, x, max_steps=10)
    >>> f = sj.function([x], double, mode="reference")
    >>> f(3.0)
    array(192.)
    >>> f(0.01)
    Traceback (most recent call last):
        ...
    scanjit.errors.AssertError: while_loop has not ended after max_steps = 10 steps
      got:      a condition that still holds
      ...

    At most 10 steps, without an error:

    >>> condition, body = lambda s: (s[0] < 100.0) & (s[1] < 10), lambda s: (s[0] * 2.0, s[1] + 1)
    >>> sj.function([x], sj.while_loop(condition, body, (x, 0)), mode="reference")(0.01)
    (array(10.24), array(10))
    """
    state = entries.state(init)
    where = function_location(cond)
    for name, function in (("condition", cond), ("body", body)):
        check_callable(function, f"the {name} of while_loop")
        check_takes(
            function,
            [init],
            f"the {name} of while_loop takes one argument, the whole state",
            got=f"1 argument: {describe(init)}",
            fix="a state of several tensors is one tuple: `def body(state): x, n = state; return x + 1, n + 1`",
            where=function_location(function),
        )

    def ends(tree: Tree, leaves: Sequence[Any]) -> Node:
        return apply(INVERT, entries.condition(cond(tree.unflatten(leaves)), "while_loop", where=where))

    refused: list[ScanError] = []

    @functools.wraps(body)
    def step(before: Any) -> Any:
        new, tree = body(before), flatten(before)[1]
        refused.clear()
        try:
            leaves = tree.leaves_of(new)
            return ([new], until(ends(tree, leaves))) if all(leaf is not None for leaf in leaves) else [new]
        except Mismatch:  # `build` finds it too, and explains it
            return [new]
        except ScanError as error:  # if the state is wrong, `build` says so; else this error is raised
            refused.append(error)
            return [new]

    given = entries.steps(max_steps, "max_steps")
    most = types.LARGEST if given is None else given
    entries.check_checkpoint(checkpoint)
    loop = build(step, [], [state], [], most, name="while_loop", stack=False)
    if refused:
        raise refused[0]
    (tree,) = loop.trees
    at_once = ends(tree, loop.node.operands[: tree.size])
    steps = ir.as_dim(apply(WHERE, at_once, 0, ir.dim_node(most)))
    if max_steps is not None:
        bounded = with_params(_with_end(loop.node, at_once), length=steps, checkpoint=checkpoint)
        last = _checked(in_stretches(bounded), most, where)
    else:
        *last, count = ir.parts(with_params(loop.node, length=steps))
        again = in_stretches(with_params(loop.node, length=ir.as_dim(count), checkpoint=checkpoint))
        last = [VIA(x, y) for x, y in zip(last, again, strict=False)]
    return tree.unflatten(last[: tree.size])


def _with_end(node: Node, at_once: Node) -> Node:
    """The loop with one more carry, the last one: whether the loop must end. Before the first step it is `at_once`."""
    inputs, (*after, stop) = node.params["body"].opened()
    first, carries = node.operands, node.params["carries"]
    before = ir.new_input(at_once.type)
    body = Graph.of([*inputs[:carries], before, *inputs[carries:]], [*after, stop, stop])
    with errors.located(node.where):
        initial, fixed = [*first[:carries], at_once], first[carries:]
        return scan_node(body, initial, [], fixed, node.params["length"], until=True, name=node.params["name"])


def _checked(results: Sequence[Node], most: Dimension, where: str) -> list[Node]:
    """The last carries of a loop that must have ended. `results` are the results of `_with_end`."""
    *last, ended, _ = results
    with errors.located(where):
        return [
            ASSERT(
                x,
                ended,
                message=f"while_loop has not ended after max_steps = {most} steps",
                got="a condition that still holds",
                fix="allow more steps, or see why it does not end; if it is to stop there, count the steps in the "
                "state, and say so in the condition",
            )
            for x in last
        ]
