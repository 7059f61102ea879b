"""`tbptt`: truncated back-propagation through time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scanjit import errors
from scanjit.autodiff import grad
from scanjit.ir import Node, apply, as_node
from scanjit.loops.scan import scan
from scanjit.loops.step import check_takes
from scanjit.loops.structure import describe, flatten, function_location
from scanjit.ops.chain import carries_gradient
from scanjit.ops.elementwise import AND, EQUAL, STOP_GRADIENT, where
from scanjit.ops.shape import IOTA
from scanjit.ops.stretch import SUM
from scanjit.tensor.looping import check_callable

Step = Callable[[Any, Any, Any], tuple[Any, Any]]


def tbptt(
    fn: Step,
    sequences: Any,
    state: Any,
    params: Any,
    k1: int,
    k2: int | None = None,
    *,
    checkpoint: Any = None,
    name: str | None = None,
) -> tuple[Node, Any, Any]:
    """Truncated back-propagation through time: the loss of a recurrence over a sequence, and a gradient that looks back
    through a limited number of steps.

    The steps 0 ... T - 1 are divided into chunks of `k1`, the last of which may be shorter. The losses of each chunk
    are differentiated through the steps of the chunk and the `k2 - k1` steps before it (fewer where the sequence
    begins): the state before these is a constant. The gradient is the sum over the chunks. So

    - `k2 == k1` (the default) cuts the sequence into pieces that no gradient crosses;
    - `k1 == 1` differentiates every loss through exactly `k2` steps;
    - `k2 >= T + k1` is back-propagation without truncation.

    Chunk number c, with the steps from `c*k1` on and with their losses `l`, adds the gradient of
    `l[c*k1] + ... + l[min(c*k1 + k1, T) - 1]` with `h[max(0, c*k1 + k1 - k2)]`, the state before that step, held
    constant if it is not `state` itself. (So `state` may depend on `params`: chunks that reach it see that.)

    Parameters
    ----------
    fn : one step, `fn(inputs, state, params) -> (new state, loss)`. The loss is a scalar of floats.
    sequences : what `inputs` is one row of: a tensor with time first, or a structure of them.
    state : before the first step: a tensor or a structure of them, as `fn` returns it.
    params : what to differentiate by: a tensor or shared variable, or a structure of them.
    k1, k2 : the numbers of steps, known when the graph is made; `k2` is at least `k1`.
    checkpoint, name : as for `scan`.

    Returns
    -------
    loss : Node
        The sum of the losses of all steps.
    gradients : the structure of `params`
    state : the structure of `state`
        After the last step: for the next part of a longer sequence.

    Raises
    ------
    ArgumentError, ScanError
        If `k1` or `k2` is no such number, or `fn` returns something else.

    Notes
    -----
    The parameters are the same in all steps. To update them after every chunk, call it with one chunk at a time, with
    the state that it returned (which then is a constant: the same as `k2 == k1`).

    The states are computed once. Backwards, each step is visited as often as windows overlap: `ceil(k2 / k1)` times.

    References
    ----------
    Williams and Peng, "An efficient gradient-based algorithm for on-line training of recurrent network trajectories",
    Neural Computation 2(4), 1990: there it is BPTT(k2; k1). Sutskever, "Training recurrent neural networks", thesis,
    University of Toronto, 2013, section 2.8.6.

    Examples
    --------
    >>> import scanjit as sj
    >>> xs, w = sj.vector("xs"), sj.scalar("w")
    >>> def step(x, h, w):
    ...     h = w * h + x
    ...     return h, h
    >>> loss, by_w, h = sj.tbptt(step, xs, sj.constant(0.0), w, k1=2)
    >>> f = sj.function([xs, w], [loss, by_w, h], mode="reference")
    >>> f([1.0, 1.0, 1.0, 1.0], 1.0)
    [array(10.), array(8.), array(4.)]

    The states are 1, 2, 3, 4. Their derivatives by `w` are 0, 1 in the first chunk and, from a constant state of 2 on,
    2, 3 + 2 in the second one. Without truncation they would be 0, 1, 3, 6.
    """
    _check(fn, k1, k2)
    k2 = k1 if k2 is None else k2
    phases = -(-k2 // k1)
    sequences = tuple(sequences) if isinstance(sequences, list) else sequences
    cut = _Cut(fn, sequences, state, params, checkpoint, name)
    total, final = cut.run(lambda t: None, lambda t: None)
    of_chunks = [cut.run(_window_starts(phase, k1, k2), _in_chunk(phase, k1, phases))[0] for phase in range(phases)]
    cost = of_chunks[0]
    for other in of_chunks[1:]:
        cost = cost + other
    return total, grad(cost, params), final


def _check(fn: Any, k1: Any, k2: Any) -> None:
    check_callable(fn, "the step of tbptt")
    check_takes(
        fn,
        (None, None, None),
        "the step of tbptt does not take what it is given",
        got="3 arguments: a row of the sequences, the state, the params",
        fix="write it as step(inputs, state, params)",
        where=function_location(fn),
    )
    for what, value, least in (("k1", k1, 1), ("k2", k1 if k2 is None else k2, k1)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise errors.ArgumentError(
                f"{what} of tbptt must be a fixed number of steps",
                got=repr(value),
                expected=f"an int of at least {least}" + (" (which is k1)" if what == "k2" else ""),
            )


Condition = Callable[[Node], Node | None]
"""A function from the number of a step to a bool. None means always for a mask, and never for a cut."""


def _window_starts(phase: int, k1: int, k2: int) -> Condition:
    """Whether the window of one of the chunks `phase`, `phase + phases`, ... begins with the step. These windows do not
    overlap, so one pass back goes through all of them."""
    period = -(-k2 // k1) * k1
    return lambda t: apply(AND, t > 0, apply(EQUAL, (t + ((k2 - k1 - phase * k1) % period)) % period, 0))


def _in_chunk(phase: int, k1: int, phases: int) -> Condition:
    return lambda t: apply(EQUAL, (t // k1) % phases, phase)


class _Cut:
    """The recurrence. It runs several times, each time with gradients cut before other steps, and with other losses."""

    def __init__(self, fn: Step, sequences: Any, state: Any, params: Any, checkpoint: Any, name: str | None) -> None:
        self.fn, self.sequences, self.state, self.params = fn, sequences, state, params
        self.options = {"checkpoint": checkpoint, "name": name}
        leaves, _ = flatten(sequences)
        if not leaves or as_node(leaves[0]).ndim == 0:
            raise errors.ArgumentError("tbptt needs sequences: tensors with time first", got=describe(sequences))
        self.numbers = IOTA(length=as_node(leaves[0]).type.shape[0])

    def run(self, cut: Condition, counts: Condition) -> tuple[Node, Any]:
        """The sum of the losses that count, and the last state. All runs compute the same states: they are one loop
        when the graph is compiled, and the cuts are only in the gradients."""

        def step(t: Node, inputs: Any, state: Any, params: Any) -> tuple[Any, Node]:
            leaves, tree = flatten(state)
            new, loss = self._result(self.fn(inputs, tree.unflatten([_stopped(x, cut(t)) for x in leaves]), params))
            counted = counts(t)
            return new, loss if counted is None else where(counted, loss, 0)

        states, losses = scan(
            step,
            sequences=[self.numbers, self.sequences],
            outputs_info=[self.state, None],
            non_sequences=[self.params],
            **self.options,
        )
        leaves, tree = flatten(states)
        return SUM(losses, axes=(0,)), tree.unflatten([leaf[-1] for leaf in leaves])

    def _result(self, returned: Any) -> tuple[Any, Node]:
        if not isinstance(returned, tuple | list) or len(returned) != 2:
            raise errors.ScanError(
                "a step for tbptt returns the new state and the loss",
                got=describe(returned),
                expected="(new state, loss)",
                where=function_location(self.fn),
            )
        loss = as_node(returned[1])
        if loss.ndim or not loss.type.kind.floating:
            raise errors.ScanError(
                "the loss of a step is a scalar of floats",
                got=loss.type,
                fix="take its sum or mean",
                where=function_location(self.fn),
            )
        return returned[0], loss


def _stopped(x: Any, condition: Node | None) -> Any:
    """The state. Where the condition holds, it is a constant for derivatives."""
    if condition is None or not carries_gradient(as_node(x)):
        return x
    return where(condition, apply(STOP_GRADIENT, x), x)
