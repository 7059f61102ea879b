"""What is certain about symbolic sizes: never wrong for any numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from scanjit import errors, types
from scanjit.types import dims, maximum, minimum, not_negative

NAMES = ["n", "m"]
SIZES = [types.size(name) for name in NAMES]
NUMBERS = st.integers(-4, 4)


def _joined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Expressions of dimensions as trees, so that they can be evaluated without any simplification."""
    return st.one_of(
        st.tuples(st.sampled_from(["+", "-", "*", "min", "max"]), inner, inner),
        st.tuples(st.sampled_from(["//", "%"]), inner, st.integers(1, 3)),
    )


TREES = st.recursive(st.one_of(NUMBERS, st.sampled_from(NAMES)), _joined, max_leaves=7)
OPERATIONS: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}


def built(tree: Any, leaves: dict[str, Any], low: Any, high: Any) -> Any:
    if not isinstance(tree, tuple):
        return leaves.get(tree, tree)
    kind, *parts = tree
    a, b = (built(part, leaves, low, high) for part in parts)
    return (low if kind == "min" else high)(a, b) if kind in ("min", "max") else OPERATIONS[kind](a, b)


@settings(max_examples=400)
@given(TREES, TREES)
def test_simplified_dimensions_keep_their_values(left: Any, right: Any) -> None:
    leaves = dict(zip(NAMES, SIZES, strict=True))
    one, other = (built(tree, leaves, minimum, maximum) for tree in (left, right))
    certain = not_negative(one)
    quotient = one // other if not isinstance(other, int) else 0
    for n in range(4):
        for m in range(4):
            numbers = {"n": n, "m": m}
            env = {types.as_atom(size): numbers[name] for name, size in zip(NAMES, SIZES, strict=True)}
            expected = built(left, numbers, min, max)
            assert types.evaluate(one, env) == expected  # type: ignore[arg-type]
            assert types.formula(one)(env) == expected  # type: ignore[arg-type]
            assert expected >= 0 or not certain
            divisor = built(right, numbers, min, max)
            if divisor and not isinstance(other, int):
                assert types.evaluate(quotient, env) == expected // divisor  # type: ignore[arg-type]


def test_what_slices_need_is_certain() -> None:
    n = types.size("n")
    assert maximum(maximum(n - 1, 0) - 1, 0) is maximum(n - 2, 0)
    assert minimum(minimum(n, 5), 3) is minimum(n, 3)
    assert minimum(n + 1, n) is n
    assert not_negative(n - minimum(n, 3))
    assert not_negative(n - maximum(n - 3, 0) - minimum(3, n))
    assert not not_negative(n - 1)
    assert not_negative(n - 2 * ((n + 1) // 2) + 1)
    assert (6 * n * types.size("m")) // (2 * n) is 3 * types.size("m")


def test_requirements() -> None:
    n = types.size("n")
    with types.collecting() as found:
        types.require(0, n, "certain")
        types.require(1, n, "{left} is more than {right}")
        types.equate(n, types.size("m"), "two sizes")
    assert found == [
        types.Condition("<=", 1, n, "{left} is more than {right}", errors.OutOfBoundsError),
        types.Condition("==", n, types.size("m"), "two sizes"),
    ]
    with pytest.raises(errors.OutOfBoundsError, match="3 is more than 2"):
        types.require(3, 2, "{left} is more than {right}")
    with pytest.raises(errors.OutOfBoundsError, match="n \\+ 1 is more than n"):
        types.require(n + 1, n, "{left} is more than {right}")


def test_each_rest_of_a_dimension_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight functions can be taken out in 40,320 orders; there are 256 sets of them."""
    looked: list[Any] = []
    look = dims._by_functions
    monkeypatch.setattr(dims, "_by_functions", lambda *args: (looked.append(args[0]), look(*args))[1])
    total = sum(types.size(f"s{i}") // 2 for i in range(8))
    assert not not_negative(total - 100) and not_negative(total)
    assert 8 < len(looked) <= 256
