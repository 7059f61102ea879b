"""Which frames of a call are the user's, how their lines are named, and tracebacks that show these and one of ours.

Our errors are shortened where they are displayed, not where they leave our functions: `__traceback__` stays whole, so
debuggers (`pdb.pm()`, `%debug`) see every frame, and calls that do not fail cost nothing. These displays shorten:
`traceback`, thus `logging` and the interpreter itself from Python 3.13 on; `sys.excepthook` and `threading.excepthook`
before that, unless somebody else has set them; IPython, which asks an error how it wants to be shown.
`SCANJIT_TRACEBACK=full` shows everything.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

import numpy as np

_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_SITE = os.path.dirname(os.path.dirname(os.path.abspath(np.__file__)))
_SITES = dict.fromkeys([_SITE, *(folder for folder in sys.path if folder.endswith(("site-packages", "dist-packages")))])
_METHODS = ("numpy", "scipy", "matplotlib", "pandas")
"""Libraries that call methods of symbols."""
_FOREIGN = ("jax", "torch", "pytensor")
"""Libraries that call what `as_function` makes."""
PACKAGES = tuple(
    os.path.join(folder, name) + os.sep
    for folder, name in (
        *((_HOME, name) for name in ("scanjit", "lasagne_like")),
        *itertools.product(_SITES, (*_METHODS, *_FOREIGN)),
    )
)
_LAYERS = PACKAGES[1]
_BENEATH = tuple(os.path.join(_SITE, name) + os.sep for name in ("numba", "llvmlite", "sympy"))
_STANDARD = (os.path.dirname(os.__file__) + os.sep, "<frozen ")
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_displaying = threading.RLock()


def is_ours(frame: FrameType) -> bool:
    """Whether a frame belongs to this package, or to a library to which users pass symbols, such as NumPy."""
    filename = frame.f_code.co_filename
    # ("<string>" is the `__init__` of a dataclass, which may be one of ours.)
    return filename.startswith(PACKAGES) or (
        filename == "<string>" and str(frame.f_globals.get("__name__")).startswith(("scanjit.", "lasagne_like."))
    )


def is_standard(filename: str) -> bool:
    """Whether a file is of Python's own library."""
    return filename.startswith(_STANDARD) and not any(part in filename for part in _INSTALLED)


def line(filename: str, number: int) -> str:
    """`file:line`, or `Cell In[n], line k` for the code of a notebook's cell, which IPython gives a file of its own."""
    shell = _shell() if "IPython" in sys.modules else None
    ask = getattr(getattr(shell, "compile", None), "format_code_name", None)
    named = ask(filename) if ask is not None else None
    return f"{' '.join(named)}, line {number}" if named else f"{filename}:{number}"


def _shell() -> Any:
    """IPython's shell, if that is what runs this program."""
    ask = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return ask() if ask is not None else None


class BriefError(Exception):
    """The abstract base of errors whose tracebacks are shortened."""

    def _render_traceback_(self) -> list[str]:  # IPython asks for it by this name
        shell = _shell()
        with shortened(self):
            if shell is None:
                return traceback.format_exception(self)
            lines: list[str] = shell.InteractiveTB.structured_traceback(type(self), self, self.__traceback__)
            return lines


@contextlib.contextmanager
def shortened(error: BaseException | None) -> Iterator[None]:
    """A context in which the tracebacks of our errors in the chain of `error`, and of the errors that led to them, are
    short."""
    if os.environ.get("SCANJIT_TRACEBACK", "").strip().lower() == "full":
        yield
        return
    with _displaying:  # of two threads that display one error, the second must not find the short ones and keep them
        whole = [(each, each.__traceback__) for each in _brief_errors(error)]
        try:
            for each, trace in whole:
                each.__traceback__ = _brief(trace)
            yield
        finally:
            for each, trace in whole:
                each.__traceback__ = trace


def _brief_errors(error: BaseException | None) -> list[BaseException]:
    """Our errors in a chain, and the errors that they come from."""
    found: list[BaseException] = []
    seen = set()
    ahead = [(error, False)]
    while ahead:
        each, brief = ahead.pop()
        if each is None or (id(each), brief) in seen:
            continue
        brief = brief or isinstance(each, BriefError) or _is_of_layers(each)
        seen |= {(id(each), False), (id(each), brief)}
        if brief and not any(each is other for other in found):
            found.append(each)
        members = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        ahead += [(inner, brief) for inner in (each.__cause__, each.__context__, *members)]
    return found


def _is_of_layers(error: BaseException) -> bool:
    """Whether a line of `lasagne_like` raised an error: it raises plain ones, such as ValueError."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return isinstance(error, Exception) and bool(frames) and frames[-1].f_code.co_filename.startswith(_LAYERS)


def _brief(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without our frames, and without the frames of libraries that we called. One frame of ours stays: that
    of the function which the user called last."""
    entries = []
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    first = next((k for k, entry in enumerate(entries) if is_ours(entry.tb_frame)), len(entries))
    kept = [k for k, entry in enumerate(entries) if k < first or not _is_library(entry.tb_frame)]
    called = kept[-1] + 1 if kept else 0
    short = None
    for k in reversed([*kept, called] if called < len(entries) else kept):
        short = TracebackType(short, entries[k].tb_frame, entries[k].tb_lasti, entries[k].tb_lineno)
    return short


def _is_library(frame: FrameType) -> bool:
    """Whether a frame beneath one of ours is there because we called a library, and not the user's function."""
    filename = frame.f_code.co_filename
    return is_standard(filename) or filename.startswith(_BENEATH) or is_ours(frame)


def install() -> None:
    """Let Python's own displays show our errors in short. Does nothing if done already."""
    display = traceback.TracebackException.__init__
    if getattr(display, "__module__", None) == __name__:
        return

    def brief(self: Any, kind: Any, error: Any, trace: Any, **options: Any) -> None:
        whole = trace is not None and trace is getattr(error, "__traceback__", None)
        with shortened(error):
            display(self, kind, error, error.__traceback__ if whole else trace, **options)

    functools.update_wrapper(brief, display, assigned=("__name__", "__qualname__", "__doc__"))
    traceback.TracebackException.__init__ = brief  # type: ignore[method-assign, assignment]
    if sys.version_info < (3, 13):  # the interpreter's own displays do not go through `traceback`
        if sys.excepthook is sys.__excepthook__:
            sys.excepthook = _show
        if threading.excepthook is threading.__excepthook__:
            threading.excepthook = _show_of_thread


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    with shortened(error):
        sys.__excepthook__(kind, error, trace)


def _show_of_thread(failed: threading.ExceptHookArgs) -> None:
    with shortened(failed.exc_value):
        threading.__excepthook__(failed)
