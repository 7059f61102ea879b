"""Nothing of a function is left in memory when it is gone."""

import gc

import numpy as np
import pytest

import scanjit as sj
from scanjit import ir, types
from scanjit.schedule.nests import verify


def test_sizes_and_nodes_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever builds many functions keeps none of their sizes and nodes in memory."""
    monkeypatch.setattr(verify, "VERIFY", False)  # it remembers some thousand accesses, and users do not turn it on

    def sizes() -> int:
        gc.collect()
        return sum(type(o) in (types.Atom, types.Dim, ir.Node) for o in gc.get_objects())

    def build() -> None:
        x = sj.tensor((None, None))
        f = sj.function([x], sj.scan(lambda row, h: h + row[: x.shape[0] // 2].sum(), x, 0.0), mode="emulate")
        f(np.ones((4, 4)))

    build()
    before = sizes()
    for _ in range(3):
        build()
    assert sizes() == before
