"""Vectors as text for LLVM, written by several threads at once."""

import subprocess
import sys


def test_threads_find_the_whole_of_llvmlites_table_of_letters():
    """llvmlite fills it when it writes its first string, and threads that write one meanwhile find a part of it."""
    program = """
from llvmlite.ir import values
import scanjit.simd.inlined
assert len(values._escape_string.__defaults__[0]) == 256
"""
    subprocess.run([sys.executable, "-c", program], check=True)
