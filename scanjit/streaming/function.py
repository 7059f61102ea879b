"""`step_function`: a compiled function of a whole sequence, called step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from scanjit import errors, ir, types
from scanjit.ir import Node
from scanjit.loops.structure import Tree
from scanjit.ops.view import DIMSHUFFLE
from scanjit.runtime.function import CompiledFunction
from scanjit.runtime.function_graph import FunctionGraph, Mode, check_complete, check_mode
from scanjit.runtime.given import graph_of
from scanjit.runtime.shared import SharedVariable
from scanjit.streaming.cut import block_of
from scanjit.streaming.values import StatePart
from scanjit.streaming.whole import Whole
from scanjit.types import Type

State = dict[str, np.ndarray]
"""A state: arrays by name. Which ones there are, `StepFunction.state_types` says."""


class FixedStep(NamedTuple):
    """A step of known sizes: the function that keeps its state, and the sizes that its arguments leave open."""

    function: CompiledFunction[Any]
    sizes: dict[str, int]


class StepFunction:
    """A function of a whole sequence, called with one step or some steps at a time. Made by `step_function`.

    `output, state = step(x, state)` computes one step: `x` is one row of the sequence, without the time axis. Without a
    state, it is the first step. `step.block(x, state)` computes several steps: its arguments have the time axis.

    A state is a dict of arrays. A step changes no array of the state that it is given: a state may be kept, and gone on
    from several times.

    Attributes
    ----------
    name, mode : as for `function`.
    state_types : the dtype and the shape of each part of the state, by name.
    one_step, some_steps : the compiled functions of one step, and of a block of steps. They take the inputs, then the
        parts of the state in the order of `state_types`. They return the output, and a dict of the new parts.

    Examples
    --------
    >>> import numpy as np, scanjit as sj
    >>> x = sj.tensor(("T", 2), name="x")
    >>> h = sj.scan(lambda row, h: np.tanh(row + 0.5 * h), x, np.zeros(2), name="h")
    >>> step = sj.step_function(sj.function([x], h, mode="reference"))
    >>> step.state_types
    {'h': float64(2)}
    >>> state = None
    >>> for row in np.ones((3, 2)):
    ...     output, state = step(row, state)
    >>> output
    array([0.89381137, 0.89381137])
    >>> outputs, state = step.block(np.ones((3, 2)))
    >>> outputs[-1]
    array([0.89381137, 0.89381137])
    """

    def __init__(self, whole: Whole, name: str, mode: Mode) -> None:
        self.name, self.mode, self._whole = name, mode, whole
        with errors.located(name):
            block = block_of(whole.outputs, whole.size, whole.timed, list(whole.fed))
        kept = whole.kept
        self._outputs = [block.outputs[i] for i in kept]
        self._output_axes = [block.axes[i] for i in kept]
        fed = [StatePart(*item) for item in whole.fed_parts(block.outputs)]
        taken = {state.name for state in fed}
        for state in block.states:
            while state.name in taken:
                state.name += "_"
        self._states = [*fed, *block.states]
        self.state_types: dict[str, Type] = {state.name: state.before.type for state in self._states}

    # ---- compiled

    @cached_property
    def some_steps(self) -> CompiledFunction[Any]:
        """The compiled function of a block of steps."""
        after = [state.after for state in self._states]
        return self._compiled(list(self._whole.given), [*self._outputs, *after], self._result())

    @cached_property
    def one_step(self) -> CompiledFunction[Any]:
        """The compiled function of one step."""
        inputs, roots = self._for_one_step([*self._outputs, *(state.after for state in self._states)])
        for i, axis in enumerate(self._output_axes):
            if axis is not None:
                roots[i] = DIMSHUFFLE(roots[i], order=tuple(a for a in range(roots[i].ndim) if a != axis))
        return self._compiled(inputs, roots, self._result())

    @cached_property
    def _begin(self) -> CompiledFunction[State]:
        """The function from the inputs of a step to the state before the first step."""
        inputs, initial = self._for_one_step([state.initial for state in self._states])
        return self._made(inputs, initial, self._state_tree(), f"{self.name}.initial_state")

    def _for_one_step(self, roots: Sequence[Node]) -> tuple[list[Node], list[Node]]:
        """Inputs without a time axis, and nodes of a block as functions of them."""
        inputs, known = [], {}
        for node, axis in self._whole.given.items():
            if axis is None:
                inputs.append(node)
                continue
            kind = ir.declared(node)
            row = ir.new_input(kind.with_shape(kind.shape[:axis] + kind.shape[axis + 1 :]), node.name)
            inputs.append(row)
            order = list(range(row.ndim))
            known[node] = DIMSHUFFLE(row, order=(*order[:axis], None, *order[axis:]))
        return inputs, ir.renamed(list(roots), known)

    def _compiled(self, inputs: Sequence[Node], roots: Sequence[Node], tree: Tree) -> CompiledFunction[Any]:
        return self._made([*inputs, *(state.before for state in self._states)], roots, tree, self.name)

    def _made(self, inputs: Sequence[Node], roots: Sequence[Node], tree: Tree, name: str) -> CompiledFunction[Any]:
        graph = FunctionGraph(tuple(inputs), tuple(roots), tree)
        check_complete(graph, name)
        return CompiledFunction(graph, name, self.mode)

    def _state_tree(self) -> Tree:
        return Tree(dict, tuple(self.state_types), (Tree(),) * len(self._states))

    def _result(self) -> Tree:
        return Tree(tuple, (0, 1), (self._whole.tree, self._state_tree()))

    # ---- calls

    def initial_state(self, *inputs: Any) -> State:
        """The state before the first step.

        Parameters
        ----------
        *inputs
            The inputs of a step. Of those that have a time axis, only the sizes matter.

        Examples
        --------
        >>> import scanjit as sj
        >>> x = sj.tensor(("T", "B"), name="x")
        >>> step = sj.step_function(([x], x.max(0)), mode="reference")
        >>> step.initial_state([0.0, 0.0])
        {'max': array([-inf, -inf])}
        """
        return self._begin(*inputs)

    def __call__(self, *args: Any) -> tuple[Any, State]:
        """One step: the inputs without their time axis, then the state (None or nothing before the first step)."""
        inputs, state = self._inputs_and_state(args)
        if state is None:
            state = self.initial_state(*inputs)
        return self.one_step(*inputs, *self._parts(state))

    def block(self, *args: Any) -> tuple[Any, State]:
        """Some steps: the inputs with their time axis, then the state (None or nothing before the first step).

        Blocks may have any length: one of no step too, unless the function has windows or reads the newest row.

        Examples
        --------
        >>> import scanjit as sj
        >>> x = sj.vector("x")
        >>> step = sj.step_function(([x], sj.cumsum(x)), mode="reference")
        >>> sums, state = step.block([1.0, 2.0])
        >>> step.block([3.0, 4.0], state)[0]
        array([ 6., 10.])
        """
        inputs, state = self._inputs_and_state(args)
        if state is None:
            state = self.initial_state(*self._first_rows(inputs))
        return self.some_steps(*inputs, *self._parts(state))

    def stateful(self, state: State, steps: bool = False) -> CompiledFunction[Any]:
        """A compiled function of the inputs of a step alone. It keeps the state in shared variables from call to call.

        Parameters
        ----------
        state : where it begins; its sizes are those of all calls.
        steps : whether a call computes a block of steps, rather than one.

        Returns
        -------
        CompiledFunction
            It returns the output. Its shared variables (`shared`) have the names of the parts of the state.

        Examples
        --------
        >>> import scanjit as sj
        >>> x = sj.vector("x")
        >>> step = sj.step_function(sj.function([x], sj.cumsum(x), mode="reference"))
        >>> total = step.stateful(step.initial_state(0.0))
        >>> total(1.0), total(2.0)
        (array(1.), array(3.))
        """
        if steps not in (True, False):
            raise errors.ArgumentError(
                "steps of stateful is True or False: whether a call computes a block, of any number of steps",
                got=repr(steps),
            )
        whole = (self.some_steps if steps else self.one_step).graph
        count = len(whole.inputs) - len(self._states)
        places = {
            symbol: SharedVariable(np.array(value), Type(symbol.dtype, np.shape(value)), symbol.name, self.name)
            for symbol, value in zip(whole.inputs[count:], self._parts(state), strict=True)
        }
        after = whole.outputs[len(whole.outputs) - len(places) :]
        updates = list(zip(places.values(), after, strict=True))
        outputs = self._whole.tree.unflatten(whole.outputs[: len(self._outputs)])
        graph = graph_of(list(whole.inputs[:count]), outputs, updates, places)
        return CompiledFunction(graph, self.name, self.mode)

    def for_sizes(self, sizes: Mapping[str, int]) -> FixedStep:
        """A function of one step which keeps its state in shared variables, for sizes that are known.

        Parameters
        ----------
        sizes : the sizes of the state, by the names that the types of the inputs give them.

        Examples
        --------
        >>> import scanjit as sj
        >>> x = sj.tensor(("T", "B"), name="x")
        >>> step = sj.step_function(([x], sj.cumsum(x, axis=0)), mode="reference")
        >>> step.for_sizes({"B": 2}).function([1.0, 2.0])
        array([1., 2.])
        """
        inputs, initial = self._for_one_step([state.initial for state in self._states])
        for node, axis in zip(inputs, self._whole.given.values(), strict=True):
            if axis is None and self._whole.timed and node in ir.walk(initial, sizes=False):
                raise errors.ArgumentError(
                    f"the first state of {self.name} depends on the value of {node.name!r}",
                    fix="give that value: step.stateful(step.initial_state(...)) is a function with its state",
                )
        dims = [dim for node in inputs for dim in ir.declared(node).shape]
        known = {str(atom.name): atom for dim in dims for atom in types.atoms(dim)}
        used = {atom for state in self._states for dim in state.initial.type.shape for atom in types.atoms(dim)}
        missing = sorted(name for name, atom in known.items() if atom in used and name not in sizes)
        if missing:
            raise errors.ArgumentError(
                f"the state of {self.name} has sizes that are not known",
                got=", ".join(f"{name}: {kind}" for name, kind in self.state_types.items()),
                fix=f"pass sizes={{{', '.join(f'{name!r}: 1' for name in missing)}}}",
            )
        env = {atom: sizes.get(name, 1) for name, atom in known.items()}
        rows = [
            np.zeros([types.evaluate(dim, env) for dim in ir.declared(node).shape], ir.declared(node).dtype)
            for node in inputs
        ]
        function = self.stateful(self.initial_state(*rows))
        open_dims = (dim for node in function.graph.inputs for dim in node.type.shape)
        still_open = {str(atom.name) for dim in open_dims for atom in types.atoms(dim)}
        left = {name: size for name, size in sizes.items() if name in still_open or name not in known}
        return FixedStep(function, left)

    def _inputs_and_state(self, args: tuple[Any, ...]) -> tuple[Sequence[Any], State | None]:
        count = len(self._whole.given)
        if len(args) not in (count, count + 1):
            raise errors.ArgumentError(
                f"a step of {self.name} has another number of arguments",
                got=len(args),
                expected=f"{count} ({', '.join(str(node.name) for node in self._whole.given)}), and the state",
            )
        return args[:count], args[count] if len(args) > count else None

    def _parts(self, state: State) -> list[Any]:
        given: Any = state
        if not isinstance(given, dict) or given.keys() != self.state_types.keys():
            raise errors.ArgumentError(
                f"this is no state of {self.name}",
                got=sorted(given) if isinstance(given, dict) else repr(given),
                expected=f"a dict of {', '.join(self.state_types)}",
                fix="begin with initial_state, or with no state; go on with the state that the step before returned",
            )
        return [state[name] for name in self.state_types]

    def _first_rows(self, inputs: Sequence[Any]) -> list[Any]:
        """Rows of the sizes that a block has; a block may have no row, so they are zeros."""
        rows = []
        for given, axis in zip(inputs, self._whole.given.values(), strict=True):
            array = np.asarray(given)
            if axis is None or axis >= array.ndim:
                rows.append(given)
            else:
                rows.append(np.zeros(array.shape[:axis] + array.shape[axis + 1 :], array.dtype))
        return rows

    def __repr__(self) -> str:
        return f"<StepFunction {self.name}: state {', '.join(f'{n}: {t}' for n, t in self.state_types.items())}>"


def step_function(
    function: CompiledFunction[Any] | tuple[Sequence[Node], Any],
    time: int | Mapping[Any, int] | None = 0,
    feedback: Mapping[Any, Any] | None = None,
    name: str | None = None,
    mode: Mode | None = None,
) -> StepFunction:
    """Cut a function of a whole sequence into steps: what a step needs of the steps before becomes a state.

    Everything that goes through time is cut: loops (`scan`) in any number, one after the other; values of earlier
    steps, as `concatenate` or `pad` and a slice give them; those of the first steps, as `x[0]`, with which a loop over
    `x[1:]` may begin; convolutions over time that are padded in front; sums and other reductions over all steps up to
    now; positions (`arange`).

    Parameters
    ----------
    function : a compiled function, or a pair of inputs and outputs as `scanjit.function` takes them. Weights are
        shared: if they are set, steps use the new values.
    time : the axis that is time. A number is for all inputs that have such an axis; a dict from inputs (or their names)
        to axes is for inputs of which others have no time axis. None if one call of the function is a step already, as
        of many ONNX models that have their state as inputs and outputs.
    feedback : dict, optional
        From inputs (or their names) to outputs (their positions, their keys in a dict, or the names that they have in
        an ONNX model): in each step but the first, the input is what the output was in the step before. In the first
        one it is 0. These inputs and outputs become parts of the state. A loop that begins with such an input goes on
        from it.
    name : its name in errors; by default that of the function.
    mode : as for `scanjit.function`; by default as the function.

    Returns
    -------
    StepFunction
        `output, state = step(x, state)` for one step, `outputs, state = step.block(xs, state)` for some. An output with
        a time axis gives its entry for each step. An output without one gives, after step t, what the function gives
        for the steps up to t.

    Raises
    ------
    NotSupportedError
        If a step needs steps after it (a loop from the last step to the first, an average over the whole sequence that
        each step reads), or random numbers. The error names the op, its line, and the reason.
    ArgumentError
        For an axis, an input or an output that is not there.

    Notes
    -----
    The results are those of the whole sequence, rounded otherwise in some places: products of one row and of many are
    summed in another order, and a loop that is linear in its carries is computed in parts at once if it is long.

    Examples
    --------
    A moving average of three values, and the largest one until now:

    >>> import numpy as np, scanjit as sj
    >>> x = sj.vector("x")
    >>> padded = sj.concatenate([np.zeros(2), x])
    >>> average = (padded[2:] + padded[1:-1] + padded[:-2]) / 3
    >>> f = sj.function([x], {"average": average, "largest": x.max()}, mode="reference")
    >>> step = sj.step_function(f)
    >>> outputs, state = step.block([3.0, 6.0])
    >>> step(9.0, state)[0]
    {'average': array(6.), 'largest': array(9.)}
    """
    given: object = function  # of any type, if a user is wrong
    if isinstance(given, CompiledFunction):
        graph = given.graph
    elif isinstance(given, tuple | list) and len(given) == 2:
        inputs, outputs = given
        graph = graph_of(inputs, outputs, None, None)
    else:
        raise errors.ArgumentError(
            "step_function takes a compiled function, or inputs and outputs in a tuple",
            got=repr(function),
            fix="sj.step_function((inputs, outputs))",
        )
    chosen = mode or (function.mode if isinstance(function, CompiledFunction) else "numba")
    check_mode(chosen)
    name = name or (function.name if isinstance(function, CompiledFunction) else "step")
    return StepFunction(Whole(graph, time, feedback or {}, name), name, chosen)
