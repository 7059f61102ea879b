"""The results of loops as editors and type checkers see them: they follow from what the step returns."""

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from scanjit.ir import Node
from scanjit.loops.step import Until
from scanjit.symbol import Tensor

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R", covariant=True)

Several = tuple[Tensor, ...] | list[Tensor]
"""The type of what a step with several outputs returns."""


class StepCallable(Protocol[R]):
    """A step, as `Callable[..., R]`. Jedi matches no function with a class of ours. It then completes the results of
    all overloads, also if it cannot tell what a step returns, as for a lambda."""

    def __call__(self, *args: Any, **named: Any) -> R: ...


class Loop(Protocol[P]):
    """A function that loops a step. One output gives a node, several give a list, and a structure gives a structure.

    The order of the overloads matters if a type checker knows nothing about a value: it then takes it for one tensor.
    """

    @overload
    def __call__(self, /, fn: Callable[..., Tensor], *args: P.args, **named: P.kwargs) -> Node: ...
    @overload
    def __call__(self, /, fn: Callable[..., Several], *args: P.args, **named: P.kwargs) -> list[Node]: ...
    @overload
    def __call__(self, /, fn: Callable[..., tuple[Tensor, Until]], *args: P.args, **named: P.kwargs) -> Node: ...
    @overload
    def __call__(self, /, fn: Callable[..., tuple[Several, Until]], *args: P.args, **named: P.kwargs) -> list[Node]: ...
    @overload
    def __call__(self, /, fn: StepCallable[S | tuple[S, Until]], *args: P.args, **named: P.kwargs) -> S: ...


def loop(function: Callable[Concatenate[Callable[..., Any], P], Any]) -> Loop[P]:
    """A decorator that tells type checkers the result of a function that loops a step."""
    found: Any = function
    return found
