"""What follows from the shapes of the arguments of a function, which it remembers for later calls."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scanjit.ir import Node
from scanjit.records import record
from scanjit.runtime import sizes
from scanjit.runtime.arguments import Slot
from scanjit.runtime.executable import Executable
from scanjit.runtime.shared import snapshot
from scanjit.types import Atom

if TYPE_CHECKING:
    from scanjit.runtime.compiled import AtOnce, Finish, Run  # imports the scheduler

_KEPT_SHAPES = 64
"""How many combinations of argument shapes a function remembers as checked."""


@record
class Bound:
    """What follows from the shapes of arguments: the sizes, and what computes the results."""

    sizes: dict[Atom, int]
    run: Run
    fits: Callable[[tuple[Any, ...]], bool]
    """Whether all arguments of a call are arrays of these shapes that need no look at each."""
    at_once: AtOnce | None
    """What makes whole calls with such arguments, to what the function returns."""


def _never(args: tuple[Any, ...]) -> bool:
    return False


class Bindings:
    """Binds the sizes of a function to the shapes of arguments, after all checks.

    Parameters
    ----------
    leaves : the inputs, and then the shared variables.
    slots : the place of each input.
    conditions : what sizes must fulfil.
    executable : the part of the function that a call runs.
    compiled : whether calls run compiled code.
    finish : makes what a call returns from the results, if whole calls may be made at once.
    """

    def __init__(
        self,
        leaves: Sequence[Node],
        slots: Sequence[Slot],
        conditions: list[sizes.Check],
        executable: Executable,
        compiled: bool,
        finish: Finish | None,
    ) -> None:
        self.leaves, self.slots, self.conditions, self.executable = leaves, slots, conditions, executable
        self._shared = [leaf.params["variable"] for leaf in leaves[len(slots) :]]
        sized = all(isinstance(dim, int) for variable in self._shared for dim in variable.type.shape)
        self._varying = len(slots) if sized else len(leaves)
        """How many of the leaves, the first ones, may have other shapes in another call."""
        self._known_arrays = compiled and sized
        self._as_they_are = all(slot.as_it_is for slot in slots)
        self._finish = finish
        self._known: dict[tuple[tuple[int, ...], ...], Bound] = {}

    def to(self, arrays: Sequence[np.ndarray]) -> Bound:
        """What follows from the shapes of the values of all leaves."""
        key = tuple([each.shape for each in arrays[: self._varying]])
        found = self._known.get(key)
        if found is None:
            found = self._bound([each.shape for each in arrays])
            if len(self._known) >= _KEPT_SHAPES:
                self._known.clear()
            self._known[key] = found
        return found

    def _bound(self, shapes: Sequence[tuple[int, ...]]) -> Bound:
        for slot, shape in zip(self.slots, shapes, strict=False):
            slot.check_shape(shape)
        found = sizes.bind(self.leaves, shapes)
        sizes.check(self.conditions, found)  # those on values, which it leaves undecided, are the program's to check
        run = self.executable.for_sizes(found)
        if not self._known_arrays:
            return Bound(found, run, _never, None)
        from scanjit.runtime.native import native  # imports llvmlite

        fits = native().alike(self._alike(shapes[: len(self.slots)])) if self._as_they_are else _never
        at_once = self._finish and self.executable.at_once(found, self._alike(shapes), self._finish)
        shared = self._shared
        if at_once is None or not shared:
            return Bound(found, run, fits, at_once)
        return Bound(found, run, fits, lambda args: at_once((*args, *snapshot(shared))))

    def _alike(self, shapes: Sequence[tuple[int, ...]]) -> array[int]:
        """Words that say that values are arrays of these shapes, whose memory is taken as it is (see `Native.alike`).
        Arguments of complex numbers are arrays of them, which have no axis for the parts of each."""
        words = array("q", [id(np.ndarray), len(shapes)])
        for i, (leaf, shape) in enumerate(zip(self.leaves, shapes, strict=False)):
            dtype, axes = leaf.type.in_memory.dtype, shape
            if i < len(self.slots) and self.slots[i].kind.is_complex:
                dtype, axes = self.slots[i].dtype, shape[:-1]
            words.extend([id(dtype), len(axes), *axes])
        return words
