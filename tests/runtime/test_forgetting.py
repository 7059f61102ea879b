"""Nothing of a function is left in memory when it is gone."""

import gc

import numpy as np

import scanjit as sj
from scanjit import ir, types


def test_sizes_and_nodes_are_forgotten():
    """Whoever builds many functions keeps none of their sizes and nodes in memory."""

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
