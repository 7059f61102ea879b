"""`threadpoolctl.threadpool_limits` for the threads of this package.

threadpoolctl lists the libraries that a process has loaded. For each, it looks for a class that handles the name of the
file. Our class handles one of NumPy's libraries, because that is loaded whenever this package is. We do not import
threadpoolctl ourselves: when a program imports it, we register the class at that moment.
"""

import contextlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from scanjit.runtime import processors
from scanjit.version import __version__

_NAME = "threadpoolctl"
_LIBRARY = "_multiarray_umath"
"""A library of NumPy's that each process with this package has loaded."""


def watch() -> None:
    """Have threadpoolctl limit our threads too, now or once it is imported."""
    if _NAME in sys.modules:
        _register(sys.modules[_NAME])
    else:
        finder: Any = _Finder()
        sys.meta_path.insert(0, finder)


class _Finder:
    """An import hook that finds nothing itself. It wraps the loader that others find for threadpoolctl, once."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != _NAME:
            return None
        for finder in sys.meta_path:
            others = finder is not self and hasattr(finder, "find_spec")
            spec = finder.find_spec(name, path, target) if others else None
            if spec is not None:
                loader: Any = _Loader(spec.loader, self)  # (a class of importlib.abc's would take 8 ms to import)
                spec.loader = loader if spec.loader is not None else None
                return spec
        return None


class _Loader:
    """A loader that registers our class after the module's own loader has run."""

    def __init__(self, inner: Any, finder: Any) -> None:
        self.inner, self.finder = inner, finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.inner.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.inner
        if module.__spec__ is not None:
            module.__spec__.loader = self.inner
        self.inner.exec_module(module)
        _register(module)
        with contextlib.suppress(ValueError):
            sys.meta_path.remove(self.finder)


def _register(module: Any) -> None:
    """Register our class with threadpoolctl. Versions before 3.2 cannot."""
    if not hasattr(module, "register") or not hasattr(module, "LibController"):
        return

    class Controller(module.LibController):
        """The threads of this package, as threadpoolctl sees them."""

        user_api = internal_api = "scanjit"
        filename_prefixes = (_LIBRARY,)

        def get_num_threads(self) -> int:
            return processors.allowed()  # this number is set again later: it must not be the user's own setting

        def set_num_threads(self, num_threads: int) -> None:
            processors.limit(num_threads)

        def get_version(self) -> str:
            return __version__

    module.register(Controller)
