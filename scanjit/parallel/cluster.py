"""Parts on the workers of a Dask cluster."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from scanjit import errors
from scanjit.parallel import part as parts_, travel

try:
    import dask
    import distributed
except ImportError as error:
    raise ImportError("a client of Dask needs distributed: pip install 'scanjit[dask]'") from error

_KNOWN_SECONDS = 5.0
"""A worker believes what it knows of the other workers on its machine for this many seconds."""
_known: dict[str, tuple[float, int]] = {}
"""For the address of each worker of this process: when it asked, and how many worker threads its machine has."""


class Cluster:
    """The workers that a client knows."""

    def __init__(self, function: Callable[..., Any], combine: Callable[..., Any] | None, client: Any) -> None:
        if not isinstance(client, distributed.Client) or client.asynchronous:
            raise errors.ArgumentError(
                "the client is none of Dask's",
                got=repr(client),
                expected="a distributed.Client that is not asynchronous",
            )
        self.client, self.name = client, getattr(function, "__name__", type(function).__name__)
        send_kernels(client)
        self.functions = self._kept(parts_.sent((function, combine)))

    def _kept(self, *values: Any) -> Any:
        """A tuple that the workers get. The scheduler has the values too: they are not lost with a worker."""
        with _large_graphs():
            return self.client.submit(_together, *values, pure=False, key=f"common-{uuid.uuid4().hex}")

    def _computed(self, parts: Sequence[Any], common: tuple[Any, ...]) -> list[Any]:
        """A future for each part."""
        given = self._kept(*common) if common else ()
        with _large_graphs():
            found = self.client.map(_part, parts, key=self.name, pure=False, functions=self.functions, common=given)
        return list(found)

    def outcomes(self, parts: Sequence[Any], common: tuple[Any, ...]) -> Iterator[Any]:
        """See `Workplace`."""
        futures = self._computed(parts, common)
        number = {future.key: i for i, future in enumerate(futures)}
        with self._cancelled(futures):
            for future, result in distributed.as_completed(futures, with_results=True, raise_errors=False):
                i = number[future.key]
                yield (i, result, None) if future.status == "finished" else (i, None, _exception(future))
                futures[i] = None  # its memory is free there

    def combined(self, parts: Sequence[Any], common: tuple[Any, ...], ended: Callable[[Any], None]) -> Any:
        """See `Workplace`."""
        futures = level = self._computed(parts, common)
        number = {future.key: i for i, future in enumerate(futures)}
        with self._cancelled(futures):
            while len(level) > 1:
                pairs = level[::2][: len(level) // 2], level[1::2]
                made = self.client.map(_pair, *pairs, key="combine", pure=False, functions=self.functions)
                level = [*made, *level[len(level) // 2 * 2 :]]
            failed = False
            for future in distributed.as_completed(futures):
                error = None if future.status == "finished" else _exception(future)
                failed = failed or error is not None
                ended((number[future.key], None, error))
            return None if failed else level[0].result()

    @contextlib.contextmanager
    def _cancelled(self, futures: list[Any]) -> Iterator[None]:
        """Cancel what has not ended if an exception (Ctrl-C) ends this."""
        try:
            yield
        except BaseException:
            self.client.cancel([future for future in futures if future is not None])
            raise


def _exception(future: Any) -> BaseException:
    error = future.exception() if future.status == "error" else None
    return error if error is not None else RuntimeError(f"the part was {future.status}: the cluster lost it")


@contextlib.contextmanager
def _large_graphs() -> Iterator[None]:
    """A context without Dask's warning of data in graphs. Here, the data are there on purpose, so that they outlive
    each worker."""
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        yield


# ---- kernels ---------------------------------------------------------------------------------------------------------


class Kernels(distributed.WorkerPlugin):
    """Kernels for all workers, also those that join later."""

    name = "scanjit-kernels"

    def __init__(self, made_for: str, contents: list[tuple[travel.Name, bytes]]) -> None:
        self.made_for, self.contents = made_for, contents

    def setup(self, worker: Any) -> None:
        """Dask calls this in each worker."""
        travel.unpack(self.made_for, self.contents)


def send_kernels(client: Any) -> None:
    """Send the kernels that this process has used to workers that lack them and can run them."""
    names, machine = travel.used(), travel.machine()
    if not names:
        return
    answers = client.run(travel.lacking, machine, names, on_error="return")  # some may have no scanjit, or be dying
    wanted = {name for answer in answers.values() if isinstance(answer, list) for name in answer}
    if wanted or not answers:
        contents = travel.packed([name for name in names if name in wanted or not answers])
        client.register_plugin(Kernels(machine, contents))


# ---- on the workers --------------------------------------------------------------------------------------------------


def _together(*values: Any) -> tuple[Any, ...]:
    """A context in which values are sent one by one: older versions of Dask call the first member of a tuple if it is a
    function."""
    return values


def _part(part: Any, functions: tuple[bytes], common: Sequence[Any]) -> Any:
    function, _ = parts_.received(*functions)
    return parts_.compute(function, part, common, _threads_here())


def _pair(a: Any, b: Any, functions: tuple[bytes]) -> Any:
    _, combine = parts_.received(*functions)
    return combine(a, b)


def _threads_here() -> int:
    """How many worker threads this machine has, of all workers."""
    worker = distributed.get_worker()
    asked, count = _known.get(worker.address, (-_KNOWN_SECONDS, 1))
    if time.monotonic() - asked > _KNOWN_SECONDS:
        # A worker that is leaving may get no answer, or have no loop any more (RuntimeError).
        with contextlib.suppress(OSError, TimeoutError, RuntimeError):
            ask = worker.scheduler.identity
            workers = distributed.utils.sync(worker.loop, ask, callback_timeout=_KNOWN_SECONDS)["workers"]
            own = workers.get(worker.address, {"host": None})
            count = sum(other["nthreads"] for other in workers.values() if other["host"] == own["host"])
        _known[worker.address] = time.monotonic(), max(count, worker.state.nthreads)
    return _known[worker.address][1]
