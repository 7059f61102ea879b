"""`map`: a function of many parts."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from scanjit import errors
from scanjit.parallel import part as parts_
from scanjit.parallel.errors import part_error
from scanjit.runtime import bars
from scanjit.runtime.function import CompiledFunction

Outcome = tuple[int, Any, BaseException | None]
"""The number of a part with its result, or with the exception that was raised instead."""
Function = Callable[..., Any]


class Workplace(Protocol):
    """Where parts are computed."""

    def outcomes(self, parts: Sequence[Any], common: tuple[Any, ...]) -> Iterator[Outcome]:
        """The outcome of each part, as soon as it is known."""

    def combined(self, parts: Sequence[Any], common: tuple[Any, ...], ended: Callable[[Outcome], None]) -> Any:
        """The results of all parts, combined. `ended` is called for each part; its result may be left out."""


def map(
    function: Function,
    parts: Iterable[Any],
    *,
    common: Sequence[Any] = (),
    combine: Callable[[Any, Any], Any] | None = None,
    client: Any = None,
) -> Any:
    """Call a function on each part: on the workers of a Dask cluster, in joblib's processes, or here.

    Parameters
    ----------
    function : callable
        `function(part, *common)`. It may call compiled functions, and compile some. It must be a pure function of its
        part: a worker may die, and then another one computes the part again. To set a shared variable that was made
        before is an error; variables that the function makes itself are its own.
    parts : iterable
        Arrays, numbers, names of files: what pickles. Data that the workers can read themselves need not travel.
    common : sequence
        What all parts need besides. It is sent once to each worker.
    combine : callable, optional
        `combine(a, b)` makes one result of two, on the workers. Results are combined in pairs, those in pairs, and so
        on: the order depends on the number of parts alone, so floating-point sums do too.
    client : distributed.Client, optional
        A client of Dask. By default the current one, if there is one. If there is none: joblib's processes inside of
        `joblib.parallel_config(n_jobs=...)`, as in scikit-learn; else this process, one part after the other. Within
        a part, also this process.

    Returns
    -------
    list
        The results, in the order of the parts. With `combine`, one result; None if there are no parts.

    Raises
    ------
    PartError
        If the function raises an exception for some part. The error has the results of the other parts.

    Notes
    -----
    Kernels that this process has used travel to workers whose processors have the same features. Each machine compiles
    a new kernel once, if its workers share a disk cache that they can write. Each part uses an equal share of the
    processors of its machine: their number divided by the number of worker threads there.

    On a terminal or in a notebook a bar shows how many parts have ended (`config.progress`). Dask's dashboard shows
    them under the name of the function.

    Examples
    --------
    >>> import numpy as np
    >>> import scanjit as sj
    >>> @sj.jit
    ... def last(a, xs):
    ...     return sj.scan(lambda x, h: a * h + x, sequences=xs, outputs_info=0.0)[-1]
    >>> sj.parallel.map(last, [0.0, 0.5, 1.0], common=[np.ones(3)])
    [array(1.), array(1.75), array(3.)]
    """
    return Mapper(function, combine=combine, client=client)(parts, common)


class Mapper:
    """A function that is called on parts again and again, as by `map`, but is sent only once.

    Parameters
    ----------
    function, combine, client : as for `map`. The client is chosen once, here.

    Examples
    --------
    >>> import scanjit as sj
    >>> squares = sj.parallel.Mapper(lambda x: x**2, combine=lambda a, b: a + b)
    >>> squares([1, 2, 3]), squares(range(10))
    (14, 285)
    """

    def __init__(self, function: Function, *, combine: Function | None = None, client: Any = None) -> None:
        if not callable(function):
            raise errors.ArgumentError("map calls a function on each part", got=repr(function))
        if not (combine is None or callable(combine)):
            raise errors.ArgumentError("combine must be a function of two results", got=repr(combine))
        if isinstance(function, CompiledFunction) and function.graph.updates:
            raise errors.NotSupportedError(
                f"{function.name} updates shared variables: a function for `map` must be a pure function of its part",
                got=", ".join(variable.label for variable, _ in function.graph.updates),
                fix="pass the values as arguments and return the new ones",
            )
        self.name = getattr(function, "__name__", type(function).__name__)
        self._combines = combine is not None
        self._place = _place(function, combine, client)

    def __call__(self, parts: Iterable[Any], common: Sequence[Any] = ()) -> Any:
        for name, given in {"parts": parts, "common": common}.items():
            if not hasattr(given, "__iter__"):
                raise errors.ArgumentError(f"{name} must be a list", got=repr(given))
        parts, common = list(parts), tuple(common)
        shown = _Shown(self.name, len(parts))
        stream = bars.seen()
        drawing = None if stream is None else bars.Watcher(shown, stream)
        results: list[Any] = [None] * len(parts)
        failed: dict[int, BaseException] = {}

        def ended(outcome: Outcome) -> None:
            shown.done += 1
            number, results[number], error = outcome
            if error is not None:
                failed[number] = error

        total = None
        try:
            if not self._combines:
                for outcome in self._place.outcomes(parts, common):
                    ended(outcome)
            elif parts:
                total = self._place.combined(parts, common, ended)
        finally:
            shown.ended.set()
        if drawing is not None:
            drawing.wait()
        if failed:
            raise part_error(parts, failed, results) from failed[min(failed)]
        return total if self._combines else results


class _Shown:
    """How many parts have ended, for a bar."""

    def __init__(self, name: str, count: int) -> None:
        self.name, self.count, self.done = name, count, 0
        self.begun, self.ended = time.monotonic(), threading.Event()

    def state(self) -> tuple[str, int, int] | None:
        seconds = time.monotonic() - self.begun
        if seconds < bars.SILENT:
            return None
        return f"{self.name}: {self.done} of {self.count} parts, {seconds:.0f} s", self.done, self.count


def _place(function: Function, combine: Function | None, client: Any) -> Workplace:
    client = _current_client() if client is None else client
    if client is not None:
        from scanjit.parallel.cluster import Cluster  # imports distributed

        return Cluster(function, combine, client)
    return Here(function, combine)


def _current_client() -> Any:
    """The client of Dask that is in use here; None if there is none, or if this is a part already."""
    distributed = sys.modules.get("distributed")
    if distributed is None or parts_.running():
        return None
    try:
        return distributed.Client.current()
    except ValueError:
        return None


class Here:
    """This process, or the processes of joblib where `parallel_config` asks for some."""

    def __init__(self, function: Function, combine: Function | None) -> None:
        self.function, self.combine = function, combine
        self._data: bytes | None = None

    def outcomes(self, parts: Sequence[Any], common: tuple[Any, ...]) -> Iterator[Outcome]:
        """See `Workplace`."""
        if (count := _jobs()) > 1:
            joblib = importlib.import_module("joblib")
            self._data = self._data or parts_.sent(self.function)
            calls = (joblib.delayed(_received_outcome)(self._data, i, part, common) for i, part in enumerate(parts))
            yield from joblib.Parallel(n_jobs=count, return_as="generator")(calls)
        else:
            yield from (_outcome(self.function, i, part, common) for i, part in enumerate(parts))

    def combined(self, parts: Sequence[Any], common: tuple[Any, ...], ended: Callable[[Outcome], None]) -> Any:
        """See `Workplace`."""
        assert self.combine is not None
        results, errors = [], []
        for outcome in self.outcomes(parts, common):
            ended(outcome)
            results.append(outcome[1])
            errors += [outcome[2]] if outcome[2] is not None else []
        while len(results) > 1 and not errors:
            pairs = zip(results[::2], results[1::2], strict=False)
            results = [*(self.combine(*pair) for pair in pairs), *results[len(results) // 2 * 2 :]]
        return None if errors else results[0]


def _jobs() -> int:
    """How many processes `joblib.parallel_config` asks for."""
    joblib = sys.modules.get("joblib")
    if joblib is None or parts_.running():
        return 1
    _, count = joblib.parallel.get_active_backend()
    return int(joblib.effective_n_jobs(count or 1))


def _outcome(function: Function, number: int, part: Any, common: tuple[Any, ...]) -> Outcome:
    try:
        return number, parts_.compute(function, part, common), None
    except errors.not_from_signal_handler(Exception) as error:
        return number, None, error


def _received_outcome(data: bytes, number: int, part: Any, common: tuple[Any, ...]) -> Outcome:
    return _outcome(parts_.received(data), number, part, common)
