"""What numbers are kept as and computed in stands in one table: a new row is all that a new kind of number needs."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

from scanjit import types
from scanjit.codegen.names import suffix
from scanjit.kinds import COMPLEX, KINDS, Kind, integer_of, kind_of
from tests.simd.support import run_compiled, run_emulated, source_of

ROOT = Path(__file__).parent.parent / "scanjit"
FROM_OUTSIDE = ("kinds.py", "export/helpers.py", "runtime/arguments.py")
"""The table, and the two files that meet dtypes of NumPy's that are none of ours."""


def test_a_row_is_found_by_its_dtype_and_its_name() -> None:
    for name, kind in KINDS.items():
        assert kind_of(kind.dtype) is kind_of(str(kind.dtype)) is kind_of(name) is kind_of(kind) is kind
        assert [kind.floating, kind.integral, kind.is_mask].count(True) == 1
        assert KINDS[kind.moved].bits == 8 * kind.size, "what is moved has the bits that are kept"
        assert kind.is_half == (name in ("f16", "bf16"))
        assert suffix(kind.dtype, 4) == f"{name}x4"
    assert integer_of(64) is KINDS["i64"]
    assert {kind.dtype for name, kind in KINDS.items() if name != "bf16"} == set(types.DTYPES)
    with pytest.raises(ValueError, match=r"no element kind for 'uint16'; known: bool, i8"):
        kind_of("uint16")


def test_complex_numbers_are_pairs_of_floats() -> None:
    for kind in COMPLEX:
        assert kind_of(kind.dtype) is kind and kind.is_complex and kind.inexact and not kind.floating
        assert KINDS[kind.moved].floating and 2 * KINDS[kind.moved].bits == kind.bits == 8 * kind.size
        assert kind.order > KINDS[kind.moved].order and kind.dtype not in types.DTYPES


@pytest.mark.parametrize("run", [run_emulated, run_compiled])
def test_a_new_row_is_all_that_a_kind_needs(run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers of 16 bits without a sign, which nobody has written a line for: loads, arithmetic, casts and stores."""
    monkeypatch.setitem(KINDS, "u16", Kind("u16", "u", 16, np.dtype("uint16"), "u16"))
    source = source_of(
        ["load_u16x8", "load_masked_u16x8", "cast_f32x8", "cast_u16x8", "head_x8", "store", "maximum"],
        ["x", "y", "z"],
        [
            "v = load_u16x8(x) * 3 + load_masked_u16x8(x, head_x8(5))",
            "store(y, maximum(v, cast_u16x8(cast_f32x8(v) * 0.5)) >> 1)",
            "store(z, cast_f32x8(v))",
        ],
    )
    x = np.array([0, 1, 2, 1000, 30000, 65535, 7, 40000], np.uint16)
    y, z = np.zeros(8, np.uint16), np.zeros(8, np.float32)
    run(source, [x, y, z])
    v = x * np.uint16(3) + np.where(np.arange(8) < 5, x, 0).astype(np.uint16)
    np.testing.assert_array_equal(y, v >> 1)
    np.testing.assert_array_equal(z, v.astype(np.float32))


def files() -> list[Path]:
    return [path for path in sorted(ROOT.rglob("*.py")) if str(path.relative_to(ROOT)) not in FROM_OUTSIDE]


def test_nobody_asks_a_dtype_what_the_table_says() -> None:
    """No comparison of the letter of a dtype, of its name, or of a number of bits; these are columns of the table."""
    asked = {"kind", "char", "bits", "name"}
    letters = re.compile(r"[biufcV?]{1,4}|(float|int|uint|bool|complex)\d*|f32|f64|i64")
    for path in files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Compare):
                continue
            sides = [node.left, *node.comparators]
            named = [side.id for side in sides if isinstance(side, ast.Name)]
            attributes = {*named, *(side.attr for side in sides if isinstance(side, ast.Attribute))} & asked
            constants = [side.value for side in sides if isinstance(side, ast.Constant)]
            exact = all(isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops)
            texts = any(isinstance(value, str) and letters.fullmatch(value) for value in constants)
            sizes = "bits" in attributes and any(isinstance(value, int) for value in constants)
            assert not (attributes and exact and (texts or sizes)), f"{path}:{node.lineno}: {ast.unparse(node)}"
