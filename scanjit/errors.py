"""The errors of this package. Each says what is wrong, in which line of the user's code, what came, what was expected,
and what to do."""

import contextvars
import functools
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any, TypeVar

from scanjit import tracebacks

_inherited: contextvars.ContextVar[tuple[str | None, FrameType] | None] = contextvars.ContextVar(
    "inherited", default=None
)
_caller: contextvars.ContextVar[FrameType | None] = contextvars.ContextVar("caller", default=None)
R = TypeVar("R")
E = TypeVar("E", bound=BaseException)


def user_location() -> str:
    """`file:line` of the innermost frame outside this package, Python's own library, NumPy and their like: the line
    that the user wrote. In a notebook, `Cell In[n], line k`.

    Inside `located(...)` it is the location given there: nodes made by a rewrite belong to the line of the node that
    they replace.
    """
    given = _inherited.get()
    if given is not None:
        where, owner = given
        if where is not None and _is_running(owner, sys._getframe(1)):
            return where
    frame = _user_frame()
    return "<unknown>" if frame is None else tracebacks.line(frame.f_code.co_filename, frame.f_lineno)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, at the line that the user wrote."""
    frame = _user_frame()
    if frame is None:
        warnings.warn(message, category, stacklevel=2)
        return
    names = frame.f_globals
    seen = names.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, names.get("__name__"), seen)


def run_for(caller: FrameType, run: Callable[..., R], *args: object) -> R:
    """Run this in a thread of its own, while a frame of another thread waits: the line that the user wrote is there."""
    token = _caller.set(caller)
    try:
        return run(*args)
    finally:
        _caller.reset(token)


def _user_frame() -> FrameType | None:
    """The frame of the line that the user wrote; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    caller = _caller.get()
    while frame is not None:
        filename = frame.f_code.co_filename
        if not _is_in_package(filename) and (filename != "<string>" or not tracebacks.is_ours(frame)):
            return frame
        frame = frame.f_back
        if frame is None:
            frame, caller = caller, None
    return None


@functools.cache
def _is_in_package(filename: str) -> bool:
    """Whether a file belongs to this package, to Python, or to a library to which users pass symbols, such as NumPy.
    This is asked for many frames of every new node."""
    return filename.startswith(tracebacks.PACKAGES) or tracebacks.is_standard(filename)


class located:
    """A context in which everything that is made belongs to the location `where`.

    An exception of a signal handler may come when this has begun to end, and `where` stays set. So it counts only while
    the function with the `with` statement runs.
    """

    __slots__ = ("_token", "_where")

    def __init__(self, where: str | None) -> None:
        self._where = where

    def __enter__(self) -> None:
        self._token = _inherited.set((self._where, sys._getframe(1)))

    def __exit__(self, *_: object) -> None:
        _inherited.reset(self._token)


def _is_running(owner: FrameType, frame: FrameType | None) -> bool:
    """Whether a frame is among the callers of another one."""
    while frame is not None and frame is not owner:
        frame = frame.f_back
    return frame is owner


def from_outside(error: BaseException) -> bool:
    """Whether an exception that was caught around one call of NumPy comes from outside of this call: from a signal
    handler, or from another thread that raised it here. It must then be passed on as it is."""
    if from_signal_handler(error):
        return True
    inner = error.__traceback__ and error.__traceback__.tb_next
    name = inner.tb_frame.f_code.co_name if inner else "__array__"
    return name == "__call__" or not (name.startswith("__") and name.endswith("__"))


def from_signal_handler(error: BaseException) -> bool:
    """Whether a signal handler of the user's raised an exception.

    For code that turns whatever it catches into an error of its own: "the file is damaged" would be wrong if a handler
    only wanted to end the program, or if an alarm went off.

    Examples
    --------
    >>> import signal, scanjit as sj
    >>> def alarm(number, frame):
    ...     raise TimeoutError("too slow")
    >>> before = signal.signal(signal.SIGINT, alarm)
    >>> try:
    ...     signal.raise_signal(signal.SIGINT)
    ... except Exception as error:
    ...     print(sj.from_signal_handler(error))
    True
    >>> _ = signal.signal(signal.SIGINT, before)
    """
    codes = {_code(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def not_from_signal_handler(*kinds: type[E]) -> tuple[type[E], ...]:
    """The kinds of exceptions for an `except` clause that does not catch what a signal handler of the user's raised.

    See `from_signal_handler`.

    Examples
    --------
    >>> import scanjit as sj
    >>> try:
    ...     raise ValueError("this is no number")
    ... except sj.not_from_signal_handler(Exception) as error:
    ...     print(f"the file is damaged: {error}")
    the file is damaged: this is no number
    """
    error = sys.exception()
    return () if error is not None and from_signal_handler(error) else kinds


class suppressed:
    """As `contextlib.suppress`, but exceptions of a signal handler are passed on: a `TimeoutError` is an `OSError` too.

    (With `contextlib.contextmanager`, the frames of the generator and the exception would refer to each other.)
    """

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        return isinstance(error, self._kinds) and not from_signal_handler(error)


def _code(handler: Any) -> CodeType | None:
    """The code that runs when a handler is called; None if it is not Python's."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not callable(handler):  # SIG_DFL, SIG_IGN
        return None
    if not hasattr(handler, "__code__") and not hasattr(handler, "__func__"):
        handler = type(handler).__call__
    return getattr(getattr(handler, "__func__", handler), "__code__", None)


class ScanjitError(tracebacks.BriefError):
    """The base of all errors of this package.

    Parameters
    ----------
    what : what is wrong.
    where : `file:line` of the user's code; found by itself if not given.
    got, expected : what came, and what should have.
    fix : what to do.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        got: object = None,
        expected: object = None,
        fix: str | None = None,
    ) -> None:
        self.what, self.got, self.expected, self.fix = what, got, expected, fix
        self.where = where if where is not None else user_location()
        super().__init__(what)

    def __str__(self) -> str:
        lines = [self.what]
        lines += [f"  got:      {self.got}"] if self.got is not None else []
        lines += [f"  expected: {self.expected}"] if self.expected is not None else []
        lines += [f"  to do:    {self.fix}"] if self.fix else []
        lines += [f"  at:       {self.where}"] if self.where else []
        return "\n".join(lines)


class ArgumentError(ScanjitError, TypeError):
    """An argument is missing, superfluous, or of the wrong kind."""


def check_known(what: str, value: object, known: Iterable[object]) -> None:
    """Raise an error unless a value is one of those that are known.

    Examples
    --------
    >>> check_known("the colour", "rde", ("red", "green", "blue"))
    Traceback (most recent call last):
    scanjit.errors.ArgumentError: the colour is unknown
      got:      'rde'
      expected: 'red', 'green' or 'blue'
      at:       ...
    """
    if value not in (every := list(known)):
        *others, last = map(repr, every)
        raise ArgumentError(f"{what} is unknown", got=repr(value), expected=f"{', '.join(others)} or {last}")


class NoSuchAttributeError(ScanjitError, AttributeError):
    """A symbol does not have such an attribute or method."""


class DtypeError(ScanjitError, TypeError):
    """A dtype is unsupported or does not fit."""


class ShapeError(ScanjitError, ValueError):
    """A rank or a size does not fit."""


class ScanError(ScanjitError, ValueError):
    """A scan is given something that it cannot run."""


class GradientError(ScanjitError, ValueError):
    """A derivative that does not exist, or is asked for wrongly."""


class OutOfBoundsError(ScanjitError, IndexError):
    """An index outside an array."""


class FormatError(ScanjitError, ValueError):
    """A file is not what it should be: of another format or a newer version, cut, or changed."""


class FunctionError(ScanjitError, RuntimeError):
    """A function of the user's own, which compiled code calls (see `from_numba`), raised an error."""


class AssertError(ScanjitError, AssertionError):
    """A condition given to `assert_` does not hold, or a `while_loop` does not end within its `max_steps`."""


class NonFiniteError(ScanjitError, FloatingPointError):
    """A value is NaN or infinite, and `config.check_finite` is on."""


class NotSupportedError(ScanjitError, NotImplementedError):
    """Valid, but not something that this backend does."""


class InternalError(ScanjitError, AssertionError):
    """A fault of this package: a pass broke a rule that the verifier checks."""
