"""The exception that is raised when parts fail."""

from collections.abc import Mapping, Sequence
from typing import Any

from scanjit.errors import ScanjitError


class PartError(ScanjitError, RuntimeError):
    """A function raised an exception for some of its parts. The other parts were computed all the same.

    Attributes
    ----------
    part : int
        The number of the first part that failed. Its exception is the `__cause__` of this one.
    errors : dict of int to exception
        The exceptions, by the numbers of the parts.
    results : list
        The results of the other parts, in the order of the parts; None for those that failed.

    Examples
    --------
    >>> import scanjit as sj
    >>> def inverse(x):
    ...     return 1 / x
    >>> try:
    ...     sj.parallel.map(inverse, [4, 0, 2])
    ... except sj.parallel.PartError as error:
    ...     print(error.part, error.results, repr(error.errors[1]))
    1 [0.25, None, 0.5] ZeroDivisionError('division by zero')
    """

    def __init__(
        self, what: str, errors: Mapping[int, BaseException] = {}, results: Sequence[Any] = (), **rest: Any
    ) -> None:
        super().__init__(what, **rest)
        self.part, self.errors, self.results = min(errors, default=-1), dict(errors), list(results)


def part_error(parts: Sequence[Any], errors: Mapping[int, BaseException], results: Sequence[Any]) -> PartError:
    """The exception for parts that failed."""
    first = min(errors)
    others = [str(i) for i in sorted(errors) if i != first]
    listed = ", ".join([*others[:10], *(["..."] if len(others) > 10 else [])])
    text = str(errors[first]) or "without a text"
    return PartError(
        f"part {first} of {len(parts)} failed" + (f", and {len(others)} more: {listed}" if others else ""),
        errors,
        results,
        got=f"{type(errors[first]).__name__}: {text}",
        fix="the error has the results of the other parts (results) and all exceptions (errors)",
        where=f"the part {_shown(parts[first])}",
    )


def _shown(part: Any) -> str:
    """A part in one short line."""
    shape = getattr(part, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"{type(part).__name__} of shape {shape}"
    text = (
        " ".join(repr(part).split()) if not isinstance(part, list | dict) else f"{type(part).__name__} of {len(part)}"
    )
    return text if len(text) <= 100 else f"{text[:97]}..."
