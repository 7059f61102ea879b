"""Choices between two branches of different ranks. A choice is revised if the rest of the model does not fit it."""

from collections.abc import Callable
from typing import TypeVar

from scanjit import errors

Result = TypeVar("Result")

_MOST = 64
"""The most walks over a model that are tried."""


class Choices:
    """The choices that a walk over a model makes, in their order.

    After a walk that fails, the next one revises the last choice; if that was revised already, the one before it.
    """

    def __init__(self) -> None:
        self._revised: list[bool] = []
        """For each choice so far, whether this walk revises it."""
        self._next = 0

    def take(self, preferred: bool) -> bool:
        """The next choice: the preferred branch, or the other one if this walk revises the choice."""
        if self._next == len(self._revised):
            self._revised.append(False)
        self._next += 1
        return preferred != self._revised[self._next - 1]

    def any(self) -> bool:
        """Whether this walk has made a choice."""
        return self._next > 0

    def fitting(self, walk: Callable[[], Result]) -> Result:
        """The result of the first walk that succeeds. If none does, the error of the first one is raised."""
        first, self._revised = None, []
        for _ in range(_MOST):
            self._next = 0
            try:
                return walk()
            except errors.ScanjitError as error:
                first = first or error
            del self._revised[self._next :]
            while self._revised and self._revised[-1]:
                self._revised.pop()
            if not self._revised:
                break
            self._revised[-1] = True
        raise first or errors.InternalError("no walk was tried")
