"""Scans over the rows of a matrix, such as running sums along its last axis: the elements of one step lie apart, and
those of one row side by side.

With time inside all other loops, a vector of rows is read and written in square blocks, which are turned on the stack.
So nothing is copied before the steps or after them.
"""

from scanjit.schedule.cost import rates
from scanjit.schedule.nests import Access, Load, Nest

LEAST_BYTES = 4
"""Smaller elements are not turned: vectors have so many of them that a block would be hundreds of instructions."""
LEAST_LANES = 4
"""The fewest lanes of a block."""
TURNED = 4 * rates.MOVE + 4 * rates.SLIDE
"""The cost of a vector that is turned: to load and to store it twice, and to move its lanes."""


def across(nest: Nest) -> list[Access]:
    """The places that a nest with time reads or writes step by step, where neighbours belong to one row of the space.
    None of them is both read and written."""
    if nest.time is None or not nest.space or nest.lanewise is not None:
        return []
    loads = [value.access for value in nest.values if isinstance(value, Load) and value.when == 1 and not value.widens]
    stores = [store.access for store in nest.stores if not store.indices and not store.add]
    written = nest.written_buffers
    read = {access.buffer for value in nest.values for access in value.accesses}
    found = [access for access in loads if access.buffer not in written]
    found += [access for access in stores if access.buffer not in read]
    return [access for access in found if _is_across(nest, access)]


def _is_across(nest: Nest, access: Access) -> bool:
    assert nest.time is not None
    apart = access.strides.get(nest.space[-1], 0) not in (0, 1)
    return apart and access.strides.get(nest.time) == 1 and access.buffer.dtype.itemsize >= LEAST_BYTES
