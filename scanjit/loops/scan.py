"""`scan`: Theano's loop, brought into the normal form of the Scan op.

How the arguments of `scan` become operands of the op:

- a tap of a sequence is a sequence of its own: a window of the input (read backwards with `go_backwards`);
- an output that is read up to k steps later (k small) is a delay line of k carries, the earliest first. In each step,
  carry i takes the value of carry i + 1, and the last carry takes what the step returned. Each tap that reaches further
  back is a carry with a lag;
- every output is stacked, whether it is fed back or not; `until` cuts the stacks to the rows that ran;
- values from outside that the step uses, `non_sequences` among them, are constants: the outermost nodes that depend on
no symbol of the step;
- a nested state is as many carries as it has tensors;
- a shared variable that the step updates is a carry that begins with the variable's value.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from scanjit import ir, tracing, types
from scanjit.errors import ScanError
from scanjit.ir import Graph, Node
from scanjit.loops import entries, results, windows
from scanjit.loops.carries import Carries
from scanjit.loops.entries import Entry, moment
from scanjit.loops.step import called, read_result
from scanjit.loops.stretches import in_stretches, with_last_rows
from scanjit.loops.structure import Tree, flatten, function_location
from scanjit.loops.updates import Update, entered
from scanjit.ops.random import RANDOM_BITS
from scanjit.ops.roles import Roles
from scanjit.ops.scan import scan_node
from scanjit.ops.shape import IOTA, row, window
from scanjit.records import record
from scanjit.symbol import Tensor
from scanjit.tensor.looping import check_callable
from scanjit.tensor.variables import check_name
from scanjit.types import Dimension


@record
class BuiltScan:
    """A scan that was built: its node, its results, and how these divide into the outputs of the step."""

    node: Node
    parts: tuple[Node, ...]
    trees: tuple[Tree, ...]
    finals: tuple[tuple[int, ...], ...]
    """For each output, which results hold its last value, one a leaf; empty for outputs that are not fed back."""
    updates: dict[Any, Node]
    """The values of shared variables after the last step."""

    @property
    def count(self) -> Node | None:
        """The number of steps that ran, if `until` decides it."""
        return self.parts[-1] if self.node.params["until"] else None

    def stacked(self) -> list[Any]:
        """The outputs, stacked over the steps that ran."""
        _, ys, count = Roles.of(self.node).split_results(self.parts)
        rows = list(ys) if count is None else [window(y, 0, 0, ir.as_dim(count)) for y in ys]
        return self._divided(with_last_rows(self.node, self.parts, rows))

    def last(self, fresh: bool = True) -> list[Any]:
        """The values that the last step returned. If there was no step and the output is fed back: the initial
        value. Without `fresh`, None for outputs that are not fed back."""
        roles = Roles.of(self.node)
        carries, ys, count = roles.split_results(self.parts)
        length = self.node.params["length"] if count is None else ir.as_dim(count)
        result: list[Any] = []
        remaining = iter(ys)
        for tree, finals in zip(self.trees, self.finals, strict=True):
            mine = [next(remaining) for _ in range(tree.size)]
            values = [row(carries[i], roles.lags[i] - 1) if i in roles.lags else carries[i] for i in finals]
            values = values or [row(y, length - 1) for y in mine if fresh]
            result.append(tree.unflatten(values) if len(values) == tree.size else None)
        return result

    def _divided(self, values: Sequence[Node]) -> list[Any]:
        remaining = iter(values)
        return [tree.unflatten([next(remaining) for _ in range(tree.size)]) for tree in self.trees]


@results.loop
def scan(
    fn: Callable[..., Any],
    sequences: Any = None,
    outputs_info: Any = None,
    non_sequences: Any = None,
    n_steps: Tensor | Dimension | None = None,
    truncate_gradient: int = -1,
    go_backwards: bool = False,
    name: str | None = None,
    strict: bool = False,
    return_list: bool = False,
    unroll: int | bool = False,
    checkpoint: int | Literal["sqrt", "all"] | None = None,
    return_updates: bool = False,
    return_last: bool = False,
) -> Any:
    """Call a step function once for each step of a loop, and stack what it returns.

    Parameters
    ----------
    fn : callable
        The step. It gets the rows of the sequences (taps in the given order), then the previous outputs (taps in the
        given order), then `non_sequences`. It returns an output, or a tuple or list of them. A condition to end the
        loop may follow: `(outputs, until(condition))`. With `return_updates`, new values of shared variables may
        follow: `(outputs, {w: w + 1})`. The step is called with symbols while the graph is built: once, or a few times
        to find the dtype of an initial value that is a Python number.
    sequences : tensor, dict, or list of them
        What is read row by row along the first axis. `dict(input=x, taps=[-1, 0, 2])` reads `x[t - 1]`, `x[t]` and
        `x[t + 2]`, for each t for which all three are inside of `x`. The loop ends with the shortest sequence.
    outputs_info : None, tensor, dict, or list of them
        An entry for each output:

        - None: the step does not read it.
        - An initial value: the step reads what the step before returned. A Python number takes the dtype of what the
          step returns.
        - `dict(initial=x, taps=[-3, -1])`: the step reads the outputs of three steps before and of the step before. The
          first rows of `x` are the outputs before the first step, the earliest first, as many as the largest lag (3).
          With `taps=[-1]`, `x` is the initial value itself, without an axis of rows.

        A tap may be an integer scalar, also of a sequence: `taps=[-n]` with `n = sj.iscalar("n")`.
    non_sequences : value or list of them
        Passed to every step as they are. Symbols that the step takes from outside need not be listed.
    n_steps : int or integer scalar, optional
        The number of steps; with `until`, the most steps. It may be 0. It may be symbolic.
    truncate_gradient : int
        Back-propagate through this many steps at the end only; -1: through all.
    go_backwards : bool
        Read the sequences from their end. Taps keep their meaning. Outputs are in the order of the steps.
    name : str, optional
        The name of the loop in prints and profiles.
    strict : bool
        Whether a symbol that the step takes from outside is an error if it is not in `non_sequences`.
    return_list : bool
        Whether a single output is returned in a list, too.
    unroll : bool or int
        The number of steps in one iteration of the generated loop, at most 1024 (fewer if a step has many operations).
        True: all steps in a row, without a loop (the number of steps must be known); a long scan becomes a loop over
        long stretches.
    checkpoint : None, "sqrt", "all" or int
        What the loop stores for its gradient. None: all states, and values that are expensive. "sqrt": every
        ceil(sqrt(n))-th state. An int k: every k-th state. The gradient then computes the steps between again. "all":
        the same as None, also around a scan that asks for checkpoints. The results are the same to the last bit,
        except with `until` and, seldom, in a loop over a few numbers.

        An inner scan with None is computed again together with the step of the outer one. The loop stores the same as
        with None if nothing would be saved, or if its steps cannot be computed again: for linear recurrences of
        numbers, for outputs that are read more than 8 steps later, and for values that other computations read too.
        `explain()` of the function says so.

        With `until`, n is the most steps, `n_steps`, and the last digits of a gradient may change. Memory for all rows
        is needed where more than the last row of the result is read.

    return_updates : bool
        Return `(outputs, updates)`, as Theano does. The updates are for `sj.function(updates=...)`: for each shared
        variable that the step updates, its value after the last step. The step reads what the step before wrote.
    return_last : bool
        Return `(outputs, last)`, with `return_updates` `(outputs, last, updates)`. `last` has what the last step
        returned, for each output that is fed back, and None for the others. Of no steps, it is the initial value.

    Returns
    -------
    Node, or list of them
        The outputs, stacked along a new first axis. A single output comes without a list. Initial rows are not
        included.

    Notes
    -----
    An entry of `sequences`, `outputs_info` or `non_sequences` may be a tuple, dict, named tuple or dataclass of tensors
    (a list or tuple of the whole argument holds entries). The step gets the same structure, returns it, and the stacked
    results come back in it.

    Raises
    ------
    ScanError
        For everything that cannot run; the message says what to change.

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> x, w = sj.tensor(("T", 3), name="x"), sj.tensor((3, 3), name="w")
    >>> sj.scan(lambda x_t, h: np.tanh(x_t + h @ w), sequences=x, outputs_info=np.zeros(3))
    <part: float64(T, 3)>
    >>> fibonacci = sj.scan(lambda a, b: a + b, outputs_info=dict(initial=[0, 1], taps=[-2, -1]), n_steps=8)
    >>> sj.function([], fibonacci, mode="reference")()
    array([ 1,  2,  3,  5,  8, 13, 21, 34])
    """
    entries.check_flags(return_list=return_list, return_last=return_last)
    loop = build(
        fn,
        entries.sequences(sequences),
        entries.outputs(outputs_info) if outputs_info is not None else None,
        entries.non_sequences(non_sequences),
        n_steps,
        truncate_gradient=truncate_gradient,
        go_backwards=go_backwards,
        name=name,
        strict=strict,
        unroll=unroll,
        checkpoint=checkpoint,
        return_updates=return_updates,
    )
    found = [loop.stacked(), *([loop.last(fresh=False)] if return_last else [])]
    results: list[Any] = [rows[0] if len(rows) == 1 and not return_list else rows for rows in found]
    results += [loop.updates] if return_updates else []
    return tuple(results) if len(results) > 1 else results[0]


def build(
    fn: Callable[..., Any],
    seqs: list[Entry],
    infos: list[Entry] | None,
    others: list[Any],
    n_steps: Any = None,
    *,
    truncate_gradient: int = -1,
    go_backwards: bool = False,
    name: str | None = None,
    strict: bool = False,
    unroll: int | bool = False,
    checkpoint: int | Literal["sqrt", "all"] | None = None,
    return_updates: bool = False,
    stack: bool = True,
) -> BuiltScan:
    """The scan node of entries that were read; see `scan` for their meaning. Without `stack`, the results are only the
    last values of the outputs, and no stack is stored."""
    check_callable(fn)
    check_name(name)
    entries.check_flags(go_backwards=go_backwards, strict=strict, return_updates=return_updates)
    length = entries.count_of_steps(seqs, entries.steps(n_steps))
    entries.check_options(length, seqs, truncate_gradient, unroll, checkpoint)
    where = function_location(fn)
    read = windows.of_sequences(seqs, length, go_backwards, asked=n_steps is not None)
    rows = [windows.row_symbol(x, label) for x, label in read]
    with tracing.mark("step") as step:
        traced = _trace(fn, _row_arguments(seqs, rows), infos, others, where)
    if traced.updates and not return_updates:
        raise ScanError(
            "the step returned updates of shared variables",
            got=", ".join(update.variable.label for update in traced.updates),
            fix="write outputs, updates = scan(..., return_updates=True), and function(..., updates=updates)",
            where=where,
        )
    if step.asked is not None and stack:
        rows.append(step.asked)
        read.append((IOTA(length=length), "step"))
    initial, carried, changed = _fed_back(traced, None if stack else step.asked)
    symbols = [*carried, *rows]
    stacked = [y for group in traced.results for y in group] if stack else []
    results = [*changed, *stacked]
    results += [] if traced.until is None else [traced.until]
    captured = ir.free_variables(results, symbols)
    if strict:
        _check_strict(results, symbols, others, where)
    _check_sizes(traced, symbols, where)
    node = scan_node(
        Graph.of([*symbols, *captured], results),
        initial,
        [x for x, _ in read],
        captured,
        length,
        lags=traced.carries.lags(),
        until=traced.until is not None,
        truncate=int(truncate_gradient),
        unroll=unroll if isinstance(unroll, bool) else int(unroll),
        checkpoint=checkpoint if checkpoint is None or isinstance(checkpoint, str) else int(checkpoint),
        name=name,
    )
    parts = in_stretches(node)
    at = len(traced.carries.symbols())  # where the carries of shared variables begin
    updates = {update.variable: update.declared(parts[i]) for i, update in enumerate(traced.updates, at)}
    return BuiltScan(node, parts, traced.trees, tuple(traced.carries.finals(len(traced.trees))), updates)


# ---- tracing ---------------------------------------------------------------------------------------------------------


@record
class Traced:
    """A step that was called on symbols."""

    carries: Carries
    trees: tuple[Tree, ...]
    results: list[tuple[Node, ...]]
    until: Node | None
    updates: list[Update]


def _fed_back(traced: Traced, counter: Node | None) -> tuple[list[Node], list[Node], list[Node]]:
    """The values that are fed back from step to step: at first, as a step reads them, and as it returns them. They are
    the carries, the shared variables that the step updates, and a `counter` of steps, if there is one. The counter
    comes last: others know the carries before it by their places."""
    carries, updates = traced.carries, traced.updates
    initial = [*carries.initial(), *(update.initial for update in updates)]
    carried = [*carries.symbols(), *(update.symbol for update in updates)]
    changed = [*carries.shifted(traced.results), *(update.new for update in updates)]
    if counter is not None:
        initial.append(ir.constant(np.int64(0)))
        carried.append(counter)
        changed.append(counter + 1)
    return initial, carried, changed


def _row_arguments(seqs: Sequence[Entry], rows: Sequence[Node]) -> list[tuple[Any, str]]:
    """The rows that the step gets, with names: for each entry and tap, a row of each leaf, in the entry's structure."""
    remaining = iter(rows)
    result = []
    for entry in seqs:
        for tap in entry.taps:
            mine = [next(remaining) for _ in entry.leaves]
            name = mine[0].name if len(mine) == 1 else entry.label + moment(tap)
            result.append((entry.tree.unflatten(mine), name or entry.label))
    return result


def _named(others: Sequence[Any]) -> list[tuple[Any, str]]:
    """The values of non_sequences, with names."""
    names = (value.name if isinstance(value, Node) else None for value in others)
    return [(value, name or f"non_sequence {i}") for i, (value, name) in enumerate(zip(others, names, strict=True))]


def _trace(
    fn: Callable[..., Any], rows: list[tuple[Any, str]], infos: list[Entry] | None, others: list[Any], where: str
) -> Traced:
    """Call the step on symbols. If initial values are Python numbers, call it again until their dtypes are known."""

    def call(carries: Carries) -> Traced:
        args = [*rows, *carries.arguments(), *_named(others)]
        given = None if infos is None else carries.infos
        returned = read_result(called(fn, [a for a, _ in args], [n for _, n in args], where), given, where)
        if returned.infos is not given:
            return call(Carries(returned.infos or []))
        groups = carries.results(returned)
        ends = [] if returned.until is None else [returned.until]
        updates, found = entered(returned.updates, [*(y for group in groups for y in group), *ends], where)
        read = iter(found)
        groups = [tuple(next(read) for _ in group) for group in groups]
        return Traced(carries, returned.trees, groups, next(read, None), updates)

    traced = call(Carries(infos or []))
    other = traced.carries.adapted(traced.results)
    while other is not None:
        traced = call(other)
        other = traced.carries.following(traced.results) if other.trials < 3 else None
    traced.carries.check(traced.results, where)
    return traced


# ---- checks ----------------------------------------------------------------------------------------------------------


def _check_strict(results: Sequence[Node], symbols: Sequence[Node], others: Sequence[Any], where: str) -> None:
    """Raise an error for the first variable that the step uses though it was not passed to it."""
    passed = [leaf for value in others for leaf in flatten(value)[0] if isinstance(leaf, Node)]
    for node in ir.free_variables(results, [*symbols, *passed]):
        if node.op is RANDOM_BITS:  # the key of a draw in the step: nothing that a user could pass
            continue
        raise ScanError(
            f"strict: the step uses {node.name or 'an expression'!r}, which is not among its arguments",
            got=f"{node!r}, made at {node.where}",
            expected="only the arguments of the step",
            fix="add it to non_sequences, and give the step an argument for it",
            where=where,
        )


def _check_sizes(traced: Traced, symbols: Sequence[Node], where: str) -> None:
    """Raise an error for an output whose size is computed anew in every step: such rows cannot be stacked."""
    inside = set(symbols)
    for i, group in enumerate(traced.results):
        for node in group:
            for atom in types.atoms(*node.type.shape):
                if atom.kind == "value" and not inside.isdisjoint(ir.walk([atom.node])):
                    raise ScanError(
                        f"output {i} has a size that may differ from step to step",
                        got=f"{node.type}, where {atom} is computed in the step",
                        expected="a size that is known before the loop",
                        fix="pad it to the largest size, and return how much of it counts as another output",
                        where=where,
                    )
