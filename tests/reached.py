"""Which tests reach which lines: to try a change of a line, it is enough to run the tests that reach it."""

import os
import pickle
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import pytest

IMPORTED = 1
"""The bit of what is run while modules are imported, in the sets of `Reached.lines`."""


class Reached(NamedTuple):
    """The tests, how long each takes (CPU time), and the lines that they reach.

    `lines` maps a file and a line to a set of tests: bit i + 1 stands for test i.
    """

    tests: list[str]
    seconds: list[float]
    lines: dict[tuple[str, int], int]

    def nearest(self, path: str, line: int, statement: int) -> list[int]:
        """The tests that reach a line (or else the beginning of its statement), the quick ones first.

        A line that only imports reach has the tests that reach any line of its file.
        """
        found = self.lines.get((path, line)) or self.lines.get((path, statement), 0)
        if found == IMPORTED:
            for (other, _), tests in self.lines.items():
                found |= tests if other == path else 0
        return sorted((i for i in range(len(self.tests)) if found >> (i + 1) & 1), key=self.seconds.__getitem__)


class Watch:
    """Notes the lines that each test reaches in some folders. A plugin of pytest; the result is pickled into a file."""

    def __init__(self, root: Path, folders: list[str], result: Path) -> None:
        self.root, self.result = root, result
        self.folders = tuple(f"{root / folder}{os.sep}" for folder in folders)
        self.bit = IMPORTED
        self.tests: list[str] = []
        self.seconds: list[float] = []
        self.lines: defaultdict[tuple[str, int], int] = defaultdict(int)
        monitoring = sys.monitoring
        monitoring.use_tool_id(monitoring.COVERAGE_ID, "reached")
        monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.PY_START, self._enter)
        monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.LINE, self._line)
        monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.PY_START)

    def _enter(self, code: CodeType, offset: int) -> object:
        if code.co_filename.startswith(self.folders):
            sys.monitoring.set_local_events(sys.monitoring.COVERAGE_ID, code, sys.monitoring.events.LINE)
        return sys.monitoring.DISABLE

    def _line(self, code: CodeType, line: int) -> object:
        self.lines[code.co_filename, line] |= self.bit
        return sys.monitoring.DISABLE

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Each test notes its lines anew."""
        self.tests.append(item.nodeid)
        self.bit = 1 << len(self.tests)
        sys.monitoring.restart_events()
        start = _cpu()
        result = yield
        self.seconds.append(_cpu() - start)
        self.bit = IMPORTED
        return result

    def pytest_sessionfinish(self) -> None:
        """Write what was found."""
        lines = {(os.path.relpath(path, self.root), line): tests for (path, line), tests in self.lines.items()}
        self.result.write_bytes(pickle.dumps(tuple(Reached(self.tests, self.seconds, lines))))


class Only:
    """Runs some tests in a given order. A plugin of pytest."""

    def __init__(self, tests: list[str]) -> None:
        self.order = {test: i for i, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the others."""
        items[:] = sorted((item for item in items if item.nodeid in self.order), key=lambda i: self.order[i.nodeid])


def _cpu() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    return sum(os.times()[:4])
