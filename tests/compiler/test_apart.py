"""Nests that do the same with several groups of buffers: one function, called for each group."""

from dataclasses import replace

import numpy as np
import pytest

import scanjit as sj
from scanjit.codegen.apart import parts
from scanjit.ir import Node
from scanjit.runtime import host
from scanjit.schedule.nests import Nest
from scanjit.schedule.pipeline import schedule


def nest_of(inputs: list[Node], outputs: list[Node]) -> Nest:
    """The only nest of a program."""
    (nest,) = schedule(inputs, outputs, host.target()).suite
    assert isinstance(nest, Nest)
    return nest


@pytest.mark.parametrize("size", [300, None])
def test_an_update_of_many_weights_is_one_function(size: int | None) -> None:
    given = [sj.tensor((size or "n",), dtype="float32", name=f"x{i}") for i in range(8)]
    rate = sj.scalar("rate", dtype="float32")
    step = 1 - rate * rate  # the same at all points: computed for each weight
    outputs = [y for m, x in zip(given[:4], given[4:], strict=True) for y in (m * 0.5 + x, x - step * (m * 0.5 + x))]
    f = sj.function([*given, rate], outputs)
    arrays = [np.random.default_rng(i).standard_normal(size or 77).astype("float32") for i in range(8)]
    expected = sj.function([*given, rate], outputs, mode="reference")(*arrays, 0.25)
    for got, wanted in zip(f(*arrays, 0.25), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=1e-6)
    assert f.source.count("\ndef ") == 2  # the main function and this one
    nest = nest_of([*given, rate], outputs)
    assert [len(part.stores) for part in parts(nest)] == [2] * 4


def test_groups_that_use_the_same_value_are_one() -> None:
    x, y, z = (sj.vector(name) for name in "xyz")
    nest = nest_of([x, y, z], [sj.exp(x) + y, sj.exp(x) + z])
    assert parts(nest) == [nest]


def test_masks_that_only_share_places_are_apart() -> None:
    """As in the dropout of each layer of a stack. What is filled with one number is apart, too."""
    stream, n = sj.random.Stream(1), sj.scalar("n", dtype="int64")
    f = sj.function([n], [stream.uniform((n, 64)) < 0.5 for _ in range(4)])
    assert f.source.count(" = random_uniform_f64(") == 1


def test_a_group_that_reads_what_another_one_writes_is_not_apart() -> None:
    x, y = sj.tensor((300,), name="x"), sj.tensor((300,), name="y")
    nest = nest_of([x, y], [x + 1, y + 1])
    assert len(parts(nest)) == 2
    first, second = nest.stores
    (read,) = (access for value in nest.values for access in value.accesses if access.buffer.name == "x")
    crossed = replace(nest, stores=(first, replace(second, access=read)))
    assert parts(crossed) == [crossed]


def test_what_differs_stays_together() -> None:
    x, y = sj.tensor((300,), name="x"), sj.tensor((300,), name="y")
    f = sj.function([x, y], [sj.exp(x), sj.tanh(y)])
    assert f.source.count("\ndef ") == 2


def test_parts_that_need_the_same_long_computation_stay_together() -> None:
    """As all entries of an inverse need the same elimination: functions of their own would each do it again."""
    x = sj.scalar("x")
    common = x
    for _ in range(20):
        common = sj.sin(common) + x
    nest = nest_of([x], [common * k for k in range(2, 8)])
    assert len(nest.stores) == 6
    assert parts(nest) == [nest]
