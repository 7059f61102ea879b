"""Nodes become tasks, and tasks become nests."""

import numpy as np
import pytest

import scanjit as sj
from scanjit import ir, types
from scanjit.ir import OPS, Node
from scanjit.ops.probe import ASSERT, PRINT
from scanjit.runtime import host
from scanjit.schedule.fuse.groups import fuse
from scanjit.schedule.lower.lowering import Lowering
from scanjit.schedule.lower.places import choose_stored
from scanjit.schedule.lower.program import lower
from scanjit.schedule.lower.region import Region, Task
from scanjit.schedule.lower.table import RULES
from scanjit.schedule.nests import Nest
from tests.targets import with_vectors

_NAMES = "complex custom via solve det logabsdet det_sign".split()
REWRITTEN = {ASSERT, PRINT, *(OPS[name] for name in _NAMES)}
"""Ops that no graph has any more when it is lowered."""
LEAVES = {ir.INPUT, ir.SHARED, ir.BOUND, ir.PART}
"""Nodes that have a place before anything is computed, or get it with the scan that they are a part of."""


def lowered(inputs: list[Node], outputs: list[Node]) -> Region:
    return lower(inputs, outputs, host.target()).region


def nests_of(region: Region) -> list[Nest]:
    return [statement for statement in fuse(region, host.target()) if isinstance(statement, Nest)]


@pytest.mark.parametrize("op", OPS.values(), ids=str)
def test_every_op_has_a_rule(op: ir.Op) -> None:
    assert (RULES.of(op) is None) == (op in REWRITTEN | LEAVES)


@pytest.mark.parametrize("inside", ["nothing", "step", "branch"])
def test_an_op_without_a_rule_is_named(inside: str) -> None:
    """It would be a copy of memory that nothing has written."""
    x = sj.vector("x")
    y = {
        "nothing": lambda: sj.print_(x),
        "step": lambda: sj.scan(lambda row, h: sj.print_(row) * h, x, 1.0),
        "branch": lambda: sj.ifelse(x[0] > 0, lambda: sj.print_(x).sum(), lambda: 0.0),
    }[inside]()
    with pytest.raises(sj.InternalError, match="the op 'print_' cannot be compiled"):
        lowered([x], [y])


def test_results_lie_in_trajectories_whatever_their_buffers_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    named = Lowering.new_memory
    monkeypatch.setattr(
        Lowering, "new_memory", lambda self, made, element, shape, name: named(self, made, element, shape, "m")
    )
    x, slots = sj.tensor(("T", 3), name="x"), sj.tensor((4,), name="slots")
    stacked = sj.scan(lambda row, h: h + row, x, sj.zeros(3))
    lag = sj.scan(lambda row, h, *_: h + row.sum(), x, {"initial": slots, "taps": [-4]})[-1]
    found = lower([x, slots], [stacked, lag], host.target())
    assert [place.buffer.kind for place in found.outputs] == ["output", "output"]
    assert types.atoms(found.outputs[0].buffer.shape[0]) and found.outputs[1].buffer.shape == ()


def test_an_op_of_a_user_has_the_rule_of_its_kind() -> None:
    op = next(op for op in OPS.values() if type(op) is sj.ops.Elementwise)
    assert RULES.of(op) is RULES.of(OPS["add"])


def test_fusing_changes_no_task() -> None:
    x = sj.tensor(("T", 8), name="x")
    region = lowered([x], [sj.exp(x).sum(0), sj.exp(x) + 1])
    before = [vars(item).copy() for item in region.items]
    first, second = nests_of(region), nests_of(region)
    assert [vars(item) for item in region.items] == before
    assert [(nest.label, len(nest.stores)) for nest in first] == [(nest.label, len(nest.stores)) for nest in second]


def test_what_one_nest_reads_alone_is_not_stored() -> None:
    x, w = sj.tensor(("T", 8), name="x"), sj.tensor((8, 8), name="w")
    region = lowered([x, w], [sj.tanh(x @ w)])
    assert len(region.items) == 2 and all(isinstance(item, Task) for item in region.items)
    (nest,) = nests_of(region)
    assert len(nest.stores) == 1


def test_what_another_nest_reads_is_stored() -> None:
    x, w = sj.tensor(("T", 8), name="x"), sj.tensor((8, 8), name="w")
    product = x @ w
    nests = nests_of(lowered([x, w], [sj.tanh(product), product[::-1] @ w]))
    assert sum(len(nest.stores) for nest in nests) == 3


def stored(outputs: list[Node]) -> set[Node]:
    return choose_stored(ir.walk(outputs), outputs, {x for x in ir.walk(outputs) if x.op is ir.INPUT}, RULES.point)


def test_what_is_expensive_and_used_twice_is_computed_once() -> None:
    x = sj.tensor((300,), name="x")
    expensive, cheap = sj.exp(x), x + 1
    twice = expensive * expensive[::-1] + cheap * cheap[::-1]
    assert expensive in stored([twice]) and cheap not in stored([twice])
    assert expensive not in stored([expensive + 1])


def test_what_is_computed_of_one_wide_product_is_stored_in_its_place() -> None:
    h, u, v, c = (sj.tensor((128, 128), name=name) for name in "huvc")
    one, other = sj.sigmoid(h @ u + c), sj.tanh(h @ v)
    assert {one, other} <= stored([one * other])
    halved = sj.sigmoid(0.5 * (h @ u))
    assert halved in stored([halved * c])
    assert sj.exp(c) not in stored([sj.exp(c) * (h @ u)])  # of no product
    both = sj.tanh((h @ u) * (h @ v))
    assert both not in stored([both * c])  # of two
    twice = h @ u
    assert sj.tanh(twice) not in stored([sj.tanh(twice) * twice])  # others read the product
    assert sj.exp(twice.T) not in stored([sj.exp(twice.T) * c])  # its elements in another order
    row = h[0] @ u
    assert sj.tanh(row + c) not in stored([sj.tanh(row + c) * c])  # each element for several
    narrow = sj.tanh(h @ u[:, :8])
    assert narrow not in stored([narrow * c[:, :8]])


def test_few_registers_hold_one_product_and_what_is_computed_of_it() -> None:
    h, c = (sj.tensor((8, 256), name=name) for name in "hc")
    weights = [sj.tensor((256, 256), name=f"w{i}") for i in range(4)]
    i, f, o = (sj.sigmoid(h @ w) for w in weights[:3])
    y = o * sj.tanh(f * c + i * sj.tanh(h @ weights[3]))
    target = with_vectors(32)
    nests = [s for s in fuse(lower([h, c, *weights], [y], target).region, target) if isinstance(s, Nest)]
    expected = ["contract_sigmoid"] * 3 + ["contract_tanh_mul"] if target.registers == 16 else [nests[0].label]
    assert [nest.label for nest in nests] == expected


def test_a_long_expression_is_cut() -> None:
    x = sj.tensor((300,), name="x")
    y = x
    for i in range(600):
        y = y * (1 + i) + 1
    assert 2 <= len(stored([y])) <= 10


def test_a_part_of_a_concatenation_is_computed_in_its_place() -> None:
    x, y = sj.tensor((3, 4), name="x"), sj.tensor((2, 4), name="y")
    region = lowered([x, y], [sj.concatenate([x @ np.ones((4, 4)), y])])
    product, copy = (item.store.access for item in region.items if isinstance(item, Task))
    assert product.buffer is copy.buffer and (product.offset, copy.offset) == (0, 12)


def test_a_reshape_of_what_is_contiguous_copies_nothing() -> None:
    x = sj.tensor((6, 4), name="x")
    assert len(lowered([x], [sj.exp(x).reshape((3, 8)) @ np.ones((8, 2))]).items) == 2
    assert len(lowered([x], [x.T.reshape((3, 8)) @ np.ones((8, 2))]).items) == 2


def test_what_is_summed_is_computed_once_for_each_term() -> None:
    """A term is added where a plain function stores it, and what is found is stored."""
    x = sj.tensor((8, 16), name="x")
    (plain,), (summed,) = (nests_of(lowered([x], [y])) for y in (sj.exp(x), sj.exp(x).sum(1)))
    assert summed.operations == plain.operations + 8
