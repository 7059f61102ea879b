"""Vectors on the stack that lie across two places of such vectors: loaded and stored as the vectors of both places.

LLVM then has each place in a register, and to roll a small state is to shuffle two registers. In memory, a load that
reaches into two vectors waits until the stores of both have left the core.
"""

from collections.abc import Sequence

from scanjit.runtime.translation.instructions import Instructions, KernelValue
from scanjit.simd.types import SimdType, Type


def is_across(to: Instructions, address: KernelValue, vector: Type) -> bool:
    """Whether a vector at an address lies across two places on the stack."""
    if address.stack is None or not isinstance(vector, SimdType) or vector.kind.is_mask:
        return False
    name, offset = address.stack
    nbytes = vector.lanes * vector.kind.size
    return offset % nbytes != 0 and 0 <= offset < to.room[name] // nbytes * nbytes - nbytes


def load(to: Instructions, address: KernelValue, vector: Type) -> KernelValue:
    """Load a vector that lies across two places."""
    places, first, lanes = _places(to, address, vector)
    low, high = (to.get(vector, f"load {vector.text}, {place}") for place in places)
    return _chosen(to, low, high, range(first, first + lanes))


def store(to: Instructions, address: KernelValue, value: KernelValue) -> None:
    """Store a vector that lies across two places. What is beside it in them stays."""
    places, first, lanes = _places(to, address, value.type)
    stored = range(lanes, 2 * lanes)
    chosen = [*range(first), *stored[: lanes - first]], [*stored[lanes - first :], *range(first, lanes)]
    for place, indices in zip(places, chosen, strict=True):
        before = to.get(value.type, f"load {value.type.text}, {place}")
        to.do(f"store {value.type.text} {_chosen(to, before, value, indices).text}, {place}")


def _places(to: Instructions, address: KernelValue, vector: Type) -> tuple[list[str], int, int]:
    """The two places as operands, the lane of the first one where the vector begins, and how many lanes it has."""
    assert address.stack is not None and isinstance(vector, SimdType)
    name, offset = address.stack
    size, nbytes = vector.kind.size, vector.lanes * vector.kind.size
    low = offset - offset % nbytes
    places = [f"ptr {to.at(name, start).text}, align {size}" for start in (low, low + nbytes)]
    return places, (offset - low) // size, vector.lanes


def _chosen(to: Instructions, a: KernelValue, b: KernelValue, lanes: Sequence[int]) -> KernelValue:
    """Some lanes of two vectors."""
    indices = ", ".join(f"i32 {lane}" for lane in lanes)
    operands = f"{a.type.text} {a.text}, {b.type.text} {b.text}"
    return to.get(a.type, f"shufflevector {operands}, <{len(lanes)} x i32> <{indices}>")
