"""`dprint`: what a graph is at each stage on its way to machine code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from scanjit import errors, ir
from scanjit.ir import INPUT
from scanjit.runtime.function import CompiledFunction, function
from scanjit.runtime.function_graph import Mode
from scanjit.show import listing
from scanjit.show.subject import subject

if TYPE_CHECKING:
    from scanjit.runtime.program import Staged


def dprint(
    x: Any,
    file: TextIO | str | None = None,
    locations: bool = False,
    loop: str | None = None,
    stage: str = "graph",
) -> str | None:
    """Print an expression or a compiled function, as it was written or at a later stage on its way to machine code.

    Parameters
    ----------
    x : an expression, several in a list, a compiled function, or a `Graph`.
    file : where to print; standard output by default. With "str" the text is returned instead.
    locations : also show the line of your code that made each node (of the first two stages).
    loop : show only the step of the loops of this name, at any depth (of the first two stages). The loop over a step
        named "rnn" is called "rnn", that of its gradient "rnn.grad".
    stage : which form to show:

        - "graph": the graph as it was written, one line a node, arguments before their users;
        - "rewritten": the graph that computes the same fast;
        - "nests": the loop nests that compute it, before they are cut into blocks of time and vectorised;
        - "blocks": the finished program of loop nests;
        - "source": the Python source that is generated from that;
        - "assembly": the machine code that LLVM makes of the source.

    Raises
    ------
    ArgumentError
        If there is nothing to show, no such stage, or no such loop.

    Examples
    --------
    >>> import scanjit as sj
    >>> x = sj.vector("x")
    >>> sj.dprint((2 * x).sum())
    %0: float64() = 2.0
    %1: float64(x.shape[0]) = input 'x'
    %2: float64(x.shape[0]) = mul %0 %1
    %3: float64() = sum %2 {axes=(0,)}
    return %3

    A loop, and that of its gradient:

    >>> h = sj.scan(lambda row, h: 0.5 * h + row, x, sj.constant(0.0), name="decay")
    >>> sj.dprint(sj.grad(h[-1], x), loop="decay.grad")
    scan {length=x.shape[0], reverse=True, name=decay.grad, gradient=True}
      | %0: float64() = carry 0
      | %1: float64() = row 0
      | %2: float64() = add %0 %1
      | %3: float64() = 0.5
      | %4: float64() = mul %2 %3
      | carry %4; emit %2

    The loop nest of a product of matrices:

    >>> a, b = sj.tensor(("I", "K"), name="a"), sj.tensor(("K", "J"), name="b")
    >>> sj.dprint(sj.tanh(a @ b), stage="nests")
    input a: float64(I, K)
    input b: float64(K, J)
    output tanh: float64(I, J)
    <BLANKLINE>
    nest contract_tanh over i0 < I, i1 < J:
        tanh[J*i0 + i1] = tanh(sum[k0 < K](a[K*i0 + k0] * b[J*k0 + i1]))
    return tanh (I by J, J by 1)
    """
    if stage not in STAGES:
        raise errors.ArgumentError("the stage is unknown", got=repr(stage), expected=f"one of {', '.join(STAGES)}")
    if (loop is not None or locations) and stage not in GRAPHS:
        raise errors.ArgumentError(
            "loop and locations can be shown of graphs only",
            got=f"stage={stage!r}",
            expected=f"one of {', '.join(GRAPHS)}",
        )
    text = GRAPHS[stage](x, locations, loop) if stage in GRAPHS else PROGRAMS[stage](x)
    if file == "str":
        return text
    print(text, end="", file=sys.stdout if file is None else file)  # type: ignore[arg-type]
    return None


def _function(x: Any, mode: Mode = "emulate") -> CompiledFunction[Any]:
    """A function that computes what is to be shown, in a mode that generates code."""
    if isinstance(x, CompiledFunction):
        return x if x.mode in ("numba", mode) else CompiledFunction(x.graph, x.name, mode)
    _, roots, _ = subject(x)
    inputs = [node for node in ir.walk(roots) if node.op is INPUT]
    try:
        return function(inputs, roots, name="the expression", mode=mode)
    except errors.ArgumentError as error:  # a size of an input that it has not, for one
        raise errors.ArgumentError(
            "this stage needs something that can be compiled by itself",
            got=str(error),
            fix="show a function of all inputs",
        ) from None


def _staged(x: Any) -> Staged:
    """The program that is to be shown, with its stages."""
    from scanjit.runtime.program import Staged  # imports llvmlite

    executable = _function(x).executable
    assert isinstance(executable, Staged)
    return executable


def _nests(x: Any) -> str:
    from scanjit.schedule.nests.printer import program_listing
    from scanjit.schedule.pipeline import fused_program

    staged = _staged(x)
    programs = [
        fused_program(s.stage.origins, s.stage.outputs, s.program.target, staged.changing) for s in staged.stages
    ]
    return "\n".join(map(program_listing, programs))


def _blocks(x: Any) -> str:
    from scanjit.schedule.nests.printer import program_listing

    return "\n".join(program_listing(stage.program) for stage in _staged(x).stages)


GRAPHS: dict[str, Callable[[Any, bool, str | None], str]] = {
    "graph": listing,
    "rewritten": lambda x, *how: listing(_staged(x).outputs, *how),
}
PROGRAMS: dict[str, Callable[[Any], str]] = {
    "nests": _nests,
    "blocks": _blocks,
    "source": lambda x: _function(x).source,
    "assembly": lambda x: _function(x, "numba").inspect_asm(),
}
STAGES = (*GRAPHS, *PROGRAMS)
