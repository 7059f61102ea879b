"""The programs that `minimize` compiles: the start, some steps of the problems that run, and the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scanjit import errors
from scanjit.batching import vmap
from scanjit.ir import Node, is_symbol
from scanjit.loops import while_loop
from scanjit.optimize.checks import called
from scanjit.optimize.method import Box, Method, State, advance, begin, select
from scanjit.optimize.result import RUNNING
from scanjit.runtime.jit import jit
from scanjit.tensor import cast


class Programs:
    """Three compiled functions. Their first arguments belong to one problem, or with `batched` to all. The problems are
    then the last axis of `args`, so that the numbers of one step of many series lie side by side:

    - `start(x, box, args, common, tolerance)`: the first state;
    - `go_on(state, box, args, common, tolerance, enough, limit)`: how many steps were taken until at most `enough`
      problems run, or `limit` steps are over; and the state then;
    - `end(state, box, args, common)`: the inverse of the second derivatives, or None.
    """

    def __init__(self, loss: Callable[..., Any], method: Method, batched: bool) -> None:
        self.batched = batched

        def each(of_one: Callable[..., Any]) -> Callable[..., Any]:
            """A function of one problem, for all of them."""

            def of_all(first: Any, box: Any, args: Any, common: Any, *rest: Any) -> Any:
                def one(first: Any, box: Any, args: Any) -> Any:
                    return of_one(lambda x: _checked(called(loss, x, args, common), x), first, Box(*box), *rest)

                return vmap(one, in_axes=(0, 0, -1))(first, box, args) if batched else one(first, box, args)

            return of_all

        def begun(loss: Callable[..., Any], x: Node, box: Box, tolerance: Node) -> State:
            len(x)  # makes it a known size: matrices of a few variables become straight-line code
            return begin(method, loss, x, box, tolerance)

        def stepped(loss: Callable[..., Any], state: State, box: Box, tolerance: Node) -> State:
            len(state.best.x)
            return select(state.status == RUNNING, advance(method, loss, state, box, tolerance), state)

        def ended(loss: Callable[..., Any], state: State, box: Box) -> Any:
            len(state.best.x)
            return method.inverse(state.best, state.memory, box)

        step = each(stepped)

        def go_on(state: State, box: Any, args: Any, common: Any, tolerance: Node, enough: Node, limit: Node) -> Any:
            def going(now: Any) -> Any:
                running = cast(now[1].status == RUNNING, "int64").sum()
                return (running > enough) & (now[0] < limit)

            def body(now: Any) -> Any:
                return now[0] + 1, step(now[1], box, args, common, tolerance)

            return while_loop(going, body, (0, state))

        self.start, self.go_on = jit(each(begun)), jit(go_on)
        self.end = jit(each(ended)) if method.has_inverse else lambda *problems: None


def _checked(found: Any, x: Node) -> Any:
    """A loss, unless it has another precision than the variables."""
    if is_symbol(found) and found.type.kind.floating and found.dtype != x.dtype:
        raise errors.DtypeError(
            "the loss has another dtype than its first argument, the start",
            got=f"{found.dtype}",
            expected=f"{x.dtype}",
            fix=f"give the start and the data the same dtype, as by astype({str(x.dtype)!r})",
        )
    return found
