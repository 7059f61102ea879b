"""Python source is read by many threads at once."""

from __future__ import annotations

import ast
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from scanjit.runtime.parsing import parsed


class Garbage:
    """Refers to itself, so that it is collected at some later moment; then another thread gets its turn."""

    def __init__(self) -> None:
        self.own = self

    def __del__(self) -> None:
        time.sleep(0)


@pytest.fixture
def short_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_many_threads_read_sources(short_turns: None) -> None:
    """With `ast.parse` in place of `parsed` this fails on Python 3.11."""
    source = "\n".join(f"x{i} = {'(' * 20}[{{'a': [1, (2, {i})]}}]{' + 1)' * 20}" for i in range(100))

    def read(_: int) -> ast.Module:
        for _ in range(20):
            Garbage()
        return parsed(source)

    with ThreadPoolExecutor(8) as pool:
        count = 200 if sys.version_info < (3, 12) else 20
        assert all(len(tree.body) == 100 for tree in pool.map(read, range(count)))


def test_what_is_no_python_is_an_error_of_syntax() -> None:
    with pytest.raises(SyntaxError):
        parsed("def")
