"""What there is one of in a process, where several threads need it first at the same time."""

import concurrent.futures
import threading

import pytest

from scanjit.kinds import KINDS
from scanjit.runtime import native
from scanjit.simd import types
from tests.scripts import python


def test_threads_find_the_whole_of_llvmlites_table_of_letters():
    """llvmlite fills it when it writes its first string, and threads that write one meanwhile find a part of it."""
    program = """
from llvmlite.ir import values
import scanjit.simd.inlined
assert len(values._escape_string.__defaults__[0]) == 256
"""
    python(program)


class _Slow:
    """Made by two threads at the same time."""

    both = threading.Barrier(2, timeout=60)

    def __init__(self, *arguments: object) -> None:
        self.both.wait()


@pytest.mark.parametrize(
    ("module", "name", "get"),
    [
        (native, "Native", native.native),
        (types, "SimdType", lambda: types.simd_type(KINDS["f32"], 8)),
    ],
)
def test_two_threads_get_one_object(module, name, get, monkeypatch):
    monkeypatch.setattr(module, name, _Slow)
    monkeypatch.setattr(module, "_made", {})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(get), pool.submit(get)
        assert first.result() is second.result() is get()
