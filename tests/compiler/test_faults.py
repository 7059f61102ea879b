"""Tests that the tests can fail: broken schedules and broken code are noticed, every time and as what they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import scanjit as sj
from scanjit.codegen.frame import Frame
from scanjit.codegen.reduce import Together
from scanjit.codegen.sharing import SharedTurns, Variables
from scanjit.errors import InternalError
from scanjit.runtime import front as backend, sized, workspace
from scanjit.schedule.lower import maps
from scanjit.schedule.memory.lifetimes import Lifetime
from scanjit.schedule.nests import Access, verify
from scanjit.simd.emulate import MemoryFault
from tests.fuzz.check import Config, Mismatch, check
from tests.fuzz.programs import Program

SIZES = (5, 19)


def some_program() -> Program:
    """A product, a reduction, a loop and elementwise code."""
    x = sj.tensor(("T", "N"), "float32", "x")
    h = sj.scan(lambda row, s: sj.tanh(row + sj.dot(s, x.T @ x)), x, sj.zeros(x.shape[1], "float32"))
    outputs = [h, sj.exp(x[::-1]) + 1, x.sum(0), x.max(1), x @ x.T]
    sizes = {dim.terms[0][0][0]: size for dim, size in zip(x.type.shape, SIZES, strict=True)}  # type: ignore[union-attr]
    return Program(1, [x], outputs, sizes, False, False)


def run() -> None:
    check(some_program(), [Config(width=32)])


def test_it_is_right_as_it_is() -> None:
    run()


def test_a_dropped_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Frame, "mask", lambda self, point: None)
    with pytest.raises(MemoryFault, match="it ends at byte"):
        run()


def _changed(change: Callable[[Access], Access]) -> Callable[..., Access]:
    plain = maps.place

    def place(ref: Any, at: Any) -> Access:
        return change(plain(ref, at))

    return place


def test_a_wrong_stride(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(access: Access) -> Access:
        return replace(access, strides={loop: s * 2 for loop, s in access.strides.items()})

    monkeypatch.setattr(maps, "place", _changed(change))
    with pytest.raises(MemoryFault):
        run()


def test_a_wrong_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "place", _changed(lambda access: replace(access, offset=access.offset - 1)))
    with pytest.raises(InternalError, match="in front of its first element"):
        run()
    monkeypatch.setattr(verify, "RULES", ())  # the emulation finds it too
    with pytest.raises(MemoryFault, match="byte -"):
        run()


def test_a_loop_that_ends_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements that are never written are garbage."""
    plain = Variables.shared

    def shared(self: Any, *args: Any) -> SharedTurns:
        whole = plain(self, *args)
        return whole._replace(high=f"max({whole.high} - 1, {whole.low})")

    monkeypatch.setattr(Variables, "shared", shared)
    with pytest.raises((Mismatch, MemoryFault)):
        run()


def test_an_accumulator_that_starts_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Together.empty

    def empty(self: Any, reduction: Any, point: Any) -> list[str]:
        names = plain(self, reduction, point)
        self.frame.scope.add(f"{names[0]} = {names[0]} + {names[0]} + 1")
        return names

    monkeypatch.setattr(Together, "empty", empty)
    with pytest.raises(Mismatch):
        run()


def test_a_wrong_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sj.ops.functions.EXP, "lower", "exp2({0})")
    with pytest.raises(Mismatch):
        run()


def test_a_rewrite_that_changes_values(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = backend.rewrite

    def rewrite(outputs: Any) -> Any:
        result = plain(outputs)
        first = result.outputs[0]
        return replace(result, outputs=[first + first, *result.outputs[1:]])

    monkeypatch.setattr(backend, "rewrite", rewrite)
    with pytest.raises(Mismatch):
        run()


def test_memory_that_is_shared_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every temporary at the same place, the planned memory holds garbage."""

    def assign(lives: list[Lifetime], number: Any) -> tuple[list[int], int]:
        return [0] * len(lives), 1 << 16

    monkeypatch.setattr(sized, "assign", assign)
    run()  # each has an allocation of its own
    with pytest.raises((Mismatch, MemoryFault)):
        check(some_program(), [Config(width=32, shared=True)])


def test_compiled_code_that_writes_outside() -> None:
    config = Config()
    with pytest.raises(Mismatch, match="wrote outside"), config.active():
        memory = workspace.zeros(24)
        np.lib.stride_tricks.as_strided(memory, (25,), (1,))[24] = 1
