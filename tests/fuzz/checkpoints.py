"""Whether checkpoints change nothing: a program all of whose loops keep some of their carries, against the same program
whose loops store everything. The results have to be equal to the last bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scanjit.ir import PART, Node, walk
from scanjit.ops.scan import SCAN
from scanjit.rewrite.engine import in_bodies, map_scans
from tests.fuzz.check import Config, Mismatch, built, computed
from tests.fuzz.programs import Program

CHOICES: tuple[int | str, ...] = (1, 2, 3, "sqrt")


def with_checkpoints(outputs: Sequence[Node], checkpoint: int | str | None) -> list[Node]:
    """The same outputs, where all loops ask for these checkpoints, those inside steps too."""

    def asking(old: Node, scan: Node) -> dict[int, Node]:
        made = scan.op(*scan.operands, **{**scan.params, "checkpoint": checkpoint})
        return {i: PART(made, index=i) for i in range(len(scan.types))}

    inner = in_bodies(list(outputs), lambda nodes: with_checkpoints(nodes, checkpoint))
    return map_scans(inner, asking)


def check_checkpoints(p: Program, checkpoint: int | str, config: Config, runs: int = 2) -> bool:
    """Run a program with and without checkpoints. Says whether anything was recomputed; raises `Mismatch`."""
    if sum(node.op is SCAN for node in walk(p.outputs)) < 2:
        return False
    rng = np.random.default_rng(p.seed)
    other = built(p, with_checkpoints(p.outputs, checkpoint), config)
    if other is None or "recomputed" not in other.explain():
        return False
    plain = built(p, with_checkpoints(p.outputs, None), config)
    if plain is None:
        return False
    for sizes in p.bindings(rng, runs if p.sizes else 1):
        arguments = p.draw(rng, sizes)
        expected, got = (computed(p, compiled, config, arguments) for compiled in (plain, other))
        where = f"checkpoint={checkpoint!r}, {config}; sizes {[int(n) for n in sizes.values()]}"
        if isinstance(expected, Exception) or isinstance(got, Exception):
            if type(expected) is not type(got):
                raise Mismatch(f"{where}: {got!r} instead of {expected!r}")
            continue
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            if not _same(a, b, finite="guards: " in plain.explain()):
                raise Mismatch(f"{where}: output {i} of type {p.outputs[i].type} differs")
    return True


def _same(a: np.ndarray, b: np.ndarray, finite: bool) -> bool:
    """Whether results are equal. Only those that are `finite` in both, if asked: where a mask makes an operand zero, a
    product with an infinity or NaN is 0 or NaN, as the tiles have it that the guards of a program leave out."""
    if finite and a.dtype.kind in "fc":
        known = np.isfinite(a) & np.isfinite(b)
        a, b = a[known], b[known]
    return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
