"""Settings of the whole process."""

import os
from array import array
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from scanjit import errors
from scanjit.scoped import scoped

MOST_THREADS = 64
"""There is scratch memory for at most this many threads."""

_FIELDS: dict[str, tuple[type | tuple[type, ...], tuple[Any, ...]]] = {
    "floatX": (str, ("float64", "float32")),
    "threads": (int, tuple(range(MOST_THREADS + 1))),
    "profile": (bool, (False, True)),
    "check_finite": ((bool, str), (False, True, "nan")),
    "progress": (bool, (False, True)),
}
"""The type of each setting, and the values it may have."""

WATCHED = array("q", [0])
"""Whether calls of compiled functions are profiled, or look for values that are not finite. Machine code reads it."""

_floatX_here: ContextVar[str | None] = ContextVar("floatX", default=None)
"""The `floatX` of the `with` block that this thread is in, if it is in one."""


class Config:
    """Settings, checked when they are assigned.

    Attributes
    ----------
    floatX : the dtype of symbols that are made without one, and of arrays that are made of Python floats: "float64"
        (the default) or "float32".
    threads : how many threads a large program uses, up to 64. 0 for the number that was fastest in earlier calls, up to
        one a processor that this process may use: by its affinity, the quota of its container, `OMP_NUM_THREADS` (which
        joblib and Dask set in their workers), and `threadpoolctl.threadpool_limits`. At first what the environment
        variable `SCANJIT_NUM_THREADS` says, else 0. Results do not depend on it.
    profile : whether calls of compiled functions take the time of each statement, for `CompiledFunction.profile`.
    check_finite : whether calls of functions look for values that are NaN or infinite: at the first one they raise a
        `NonFiniteError` that names the op, the user's line, the step and the position. Such calls are slow: they run
        op by op, as in mode="reference", whatever the mode of the function, and every value is looked at, also one
        that no result shows (`where(x > 0, log(x), 0)` of a zero). Constants of the graph may be infinite, and what is
        made of them; arguments and shared variables may not. "nan" looks for NaN only. False by default.
    progress : whether compiling, or a call, that takes more than a second says how far it is, on stderr if that is a
        terminal, or in the notebook's cell: as a bar if tqdm is installed. A call shows the steps that its loop over
        time has made, as `train: step 1,200 of 50,000, 6 s`; of loops in loops, those of the outermost one. A batch
        of `sj.optimize.minimize` shows how many of its problems have ended. True by default.

    Examples
    --------
    >>> from scanjit.config import config
    >>> config.floatX
    'float64'
    >>> config.floatX = "int8"
    Traceback (most recent call last):
        ...
    scanjit.errors.ArgumentError: the value of config.floatX is not valid
      got:      'int8'
      expected: one of 'float64', 'float32'
      ...
    """

    threads: int = 0
    profile: bool = False
    check_finite: bool | str = False
    progress: bool = True

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={getattr(self, name)!r}' for name in _FIELDS)})"

    @property
    def floatX(self) -> str:
        """The dtype of symbols that are made without one."""
        return _floatX_here.get() or self.__dict__.get("floatX", "float64")

    @floatX.setter
    def floatX(self, value: str) -> None:
        self.__dict__["floatX"] = value

    def using(self, *, floatX: str) -> AbstractContextManager[object]:
        """Another `floatX` within a `with` block. Other threads, and code outside of the block, do not see it.

        Examples
        --------
        >>> import scanjit as sj
        >>> with sj.config.using(floatX="float32"):
        ...     inside = sj.vector("x")
        >>> inside.dtype, sj.vector("x").dtype
        (dtype('float32'), dtype('float64'))
        """
        _check("floatX", floatX)
        return scoped(_floatX_here, floatX)

    if not TYPE_CHECKING:  # it would allow every attribute

        def __setattr__(self, name: str, value: Any) -> None:
            _check(name, value)
            object.__setattr__(self, name, value)
            WATCHED[0] = bool(self.profile or self.check_finite)

        def __delattr__(self, name: str) -> None:  # so `unittest.mock` undoes what it has set
            object.__delattr__(self, name)
            WATCHED[0] = bool(self.profile or self.check_finite)


def _check(name: str, value: Any) -> None:
    """Raise an error if a setting cannot have a value."""
    if name not in _FIELDS:
        raise errors.ArgumentError(f"scanjit.config has no setting {name!r}", got=name, expected=", ".join(_FIELDS))
    kind, allowed = _FIELDS[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)) or value not in allowed:
        listed = allowed if len(allowed) < 10 else (*allowed[:2], "...", allowed[-1])
        expected = "one of " + ", ".join(map(str if kind is int else repr, listed))
        raise errors.ArgumentError(f"the value of config.{name} is not valid", got=repr(value), expected=expected)


def _from_environment() -> int:
    """The value of `SCANJIT_NUM_THREADS`; 0 if it is not set."""
    text = os.environ.get("SCANJIT_NUM_THREADS", "").strip()
    if text and not (text.isascii() and text.isdigit() and int(text[:9]) <= MOST_THREADS):
        raise errors.ArgumentError(
            "the environment variable SCANJIT_NUM_THREADS is not a number of threads",
            got=repr(text),
            expected=f"a number up to {MOST_THREADS}, or nothing",
            where="",
        )
    return int(text or 0)


config = Config()
config.threads = _from_environment()
