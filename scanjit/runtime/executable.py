"""The part of a function that a call runs: compiled code, or the reference interpreter."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from scanjit.config import config
from scanjit.ir import Node
from scanjit.ops.probe import has_probes
from scanjit.runtime.collecting import collected_seldom
from scanjit.runtime.finite import Finite
from scanjit.runtime.probes import Printing
from scanjit.runtime.reference import Interpreter
from scanjit.runtime.waiting import told
from scanjit.runtime.watch import Watch
from scanjit.show import Document
from scanjit.types import Atom

if TYPE_CHECKING:
    from array import array

    from scanjit.runtime.compiled import AtOnce, Finish, Run  # imports the scheduler


class Executable(Protocol):
    """The part of a function that a call runs."""

    @property
    def source(self) -> str:
        """The generated code."""

    def for_sizes(self, sizes: dict[Atom, int]) -> Run:
        """What computes the outputs where the sizes have these values. What follows from sizes alone is done here,
        once for many calls."""

    def at_once(self, sizes: dict[Atom, int], alike: array[int], finish: Finish) -> AtOnce | None:
        """What makes whole calls with these sizes, if that can be one step. The words `alike` say which arguments such
        a call has (see `Native.alike`)."""

    def explain(self) -> Document:
        """What was done to the program to make it fast, and what was not."""

    def inspect_asm(self) -> str:
        """The machine code."""


class Interpreted:
    """The graph, run by the reference interpreter. It also prints, and looks for values that are not finite."""

    source = '# mode="reference" generates no code: it runs the graph op by op. sj.dprint shows it.\n'

    def __init__(self, origins: list[Node], outputs: list[Node], watches: Sequence[Watch] = ()) -> None:
        self.origins, self.watches, self.interpret = origins, watches, Interpreter(outputs, origins)
        self.probed = has_probes(outputs)

    def for_sizes(self, sizes: dict[Atom, int]) -> Run:
        return self._run

    def at_once(self, sizes: dict[Atom, int], alike: array[int], finish: Finish) -> None:
        return None

    def _run(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        watches = [*self.watches, *([Printing()] if self.probed else [])]
        if config.check_finite:
            watches.insert(0, Finite(nan_only=config.check_finite == "nan"))
        return self.interpret(dict(zip(self.origins, arrays, strict=True)), watches)

    def explain(self) -> Document:
        return Document('mode="reference": the graph is run as it is, op by op, with NumPy. Nothing is optimised.')

    def inspect_asm(self) -> str:
        return self.source


def executable_of(
    origins: list[Node],
    outputs: list[Node],
    name: str,
    mode: str,
    watches: Sequence[Watch] = (),
    changing: Collection[Node] = (),
) -> Executable:
    """The executable that computes `outputs` from `origins` in this mode. Compiled code has no watches. Every call
    gives the shared variables `changing` new values."""
    if mode == "reference":
        return Interpreted(origins, outputs, watches)
    with told(name), collected_seldom():
        from scanjit.runtime.program import Staged  # imports llvmlite

        return Staged(origins, outputs, name, mode, changing=changing)
