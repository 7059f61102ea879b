"""Masks of one lane: joined, carried through a loop, and what they select; with the same bits as the emulation."""

import itertools
import re
from collections.abc import Sequence

import numpy as np
import pytest

from scanjit.runtime import host
from scanjit.target import target_for

from .support import assembly, run_compiled, run_emulated, same, source_of, special_values

AVX512 = target_for("x86_64-linux-gnu", "znver4", "+avx2,+fma,+avx512f,+avx512vl,+avx512dq,+avx512bw")

AVX2 = target_for("x86_64-linux-gnu", "znver3", "+avx2,+fma")
makes_assembly = pytest.mark.skipif(not host.target().is_x86, reason="assembly is made for this process")


def jumps(text: str) -> int:
    return len(re.findall(r"\tj\w+", text))


def source(kind: str, other: str) -> str:
    """A loop with masks of floats of two kinds and of integers; it carries one of them."""
    size = int(kind[1:]) // 8
    imports = f"load_{kind}x1 load_{other}x1 load_i64x1 splat_boolx1 splat_{kind}x1 select store any_of all_of".split()
    body = [
        "held = splat_boolx1(False)",
        "for i in range(n):",
        f"    x = load_{kind}x1(p + i*{size})",
        f"    y = load_{kind}x1(q + i*{size})",
        f"    z = load_{other}x1(r + i*{12 - size})",
        "    k = load_i64x1(s + i*8)",
        "    masks = ((x < y) | (z >= 1.0)) ^ (x == y) ^ (~(y <= x) & (z != 0.0) & (k > 0)) ^ (held & (x >= 0.0))",
        "    held = ((held | (x > y)) & (k != 1)) ^ (k == 2)",
        f"    store(out + i*{3 * size}, select(masks, x, y))",
        f"    store(out + i*{3 * size} + {size}, select(held, y, 0.5))",
        f"    store(out + i*{3 * size} + {2 * size}, select(k < 1, y, x))",
        "    store(kept + i*8, select(masks, k, -1))",
        "    store(bools + i, held)",
        "    if any_of(x < y) and not all_of(held):",
        "        store(kept + i*8, k + 7)",
    ]
    return source_of(imports, "p q r s out kept bools n".split(), body)


@pytest.mark.parametrize("kind, other", [("f64", "f32"), ("f32", "f64")])
def test_masks_of_floats_and_integers(kind: str, other: str, rng: np.random.Generator) -> None:
    x, y = (np.array(each) for each in zip(*itertools.product(special_values(kind), repeat=2), strict=True))
    z, k = rng.choice(special_values(other), len(x)), rng.integers(-1, 4, len(x))
    found = []
    for run in (run_compiled, run_emulated):
        out, kept, bools = np.zeros((len(x), 3), x.dtype), np.zeros_like(k), np.zeros(len(x), bool)
        run(source(kind, other), [x, y, z, k, out, kept, bools, len(x)])
        found.append((out, kept, bools))
    assert all(same(a, b).all() for a, b in zip(*found, strict=True))
    assert all(0.1 < some.mean() < 0.9 for some in (found[0][2], found[0][1] == k, found[0][1] == k + 7))


@makes_assembly
def test_floats_are_selected_without_registers_of_masks() -> None:
    body = [
        "held = splat_boolx1(False)",
        "h = splat_f64x1(0.0)",
        "for i in range(n):",
        "    x = load_f64x1(p + i*8)",
        "    h = select(((h > 1.0) | (x < 0.0)) ^ held, x, h + x)",
        "    held = (held & (h < 2.0)) | (x > 1.0)",
        "store(p, h)",
    ]
    text = source_of(["load_f64x1", "select", "splat_boolx1", "splat_f64x1", "store"], ["p", "n"], body)
    found = assembly(text, AVX512)
    assert "%k" not in found and "vcmp" in found


@makes_assembly
def test_integers_are_selected_without_branches() -> None:
    body = ["held = splat_i64x1(0)", "count = splat_i64x1(0)", "for i in range(0, n, 2):"]
    for place in (0, 8):
        body += [
            f"    x = load_i64x1(p + i*8 + {place})",
            f"    same{place} = x == held",
            f"    raised = select(same{place}, 0, count + 1)",
            f"    turns{place} = raised >= 3",
            f"    held = select(turns{place}, x, held)",
            f"    count = select(turns{place}, 0, raised)",
            f"    store(q + i*8 + {place}, held)",
        ]
    text = source_of(["load_i64x1", "select", "splat_i64x1", "store"], ["p", "q", "n"], body)
    assert jumps(assembly(text, AVX512)) == 2  # around the loop and back


@makes_assembly
@pytest.mark.parametrize("kind", ["f64", "f32"])
def test_floats_are_selected_by_integers_without_branches(kind: str) -> None:
    """One of two that are loaded, a constant or nothing, and one of two that are computed."""
    size = int(kind[1:]) // 8
    body = [
        f"h = splat_{kind}x1(0.0)",
        f"one = splat_{kind}x1(1.0)",
        f"none = splat_{kind}x1(0.0)",
        "for i in range(n):",
        "    k = load_i64x1(p + i*8)",
        f"    x = load_{kind}x1(q + i*{size})",
        "    odd = (k & 1) != 0",
        "    h = select(odd & (h < 2.0), h + x, h * x)",
        f"    store(q + i*{size}, select(k > 5, one, none) + select(k > 3, x, load_{kind}x1(r + i*{size})) + h)",
    ]
    text = source_of(["load_i64x1", f"load_{kind}x1", "select", f"splat_{kind}x1", "store"], ["p", "q", "r", "n"], body)
    assert jumps(assembly(text, AVX2)) == 2  # around the loop and back


def assembly_of_chain(function: str, kind: str, choices: Sequence[str]) -> str:
    """The assembly of a loop over states that such choices by one comparison follow, for AVX2."""
    size, states = int(kind[1:]) // 8, "abc"[: len(choices)]
    choose = [f"{state}new = {function}(b*x > c, {choice})" for state, choice in zip(states, choices, strict=True)]
    body = [f"{state} = load_{kind}x1(p + {k * size})" for k, state in enumerate("abc")]
    body += ["for i in range(n):", f"    x = load_{kind}x1(q + i*{size})", *[f"    {line}" for line in choose]]
    body += [f"    {state} = {state}new" for state in states]
    body += [f"store(p + {k * size}, {state})" for k, state in enumerate(states)]
    text = source_of([f"load_{kind}x1", function, "store"], ["p", "q", "n"], body)
    return assembly(text, AVX2)


@makes_assembly
@pytest.mark.parametrize("kind", ["f64", "f32"])
def test_several_floats_are_selected_by_one_comparison_without_branches(kind: str) -> None:
    choices = ["a + x, a", "b - x, b", "c, c + x"]
    found = [jumps(assembly_of_chain(f, kind, choices)) for f in ("select", "select_freely")]
    assert found[0] == 2 < found[1]  # around the loop and back


@makes_assembly
def test_a_choice_of_the_larger_number_may_be_one_instruction() -> None:
    assert "vmaxsd" in assembly_of_chain("select_freely", "f64", ["b*x, c"])
    assert "vmaxsd" not in assembly_of_chain("select", "f64", ["b*x, c"])
