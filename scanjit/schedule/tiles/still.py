"""Steps that may change nothing: as many of them as a vector has lanes are computed from one state, and if none of them
changes it, that was right.

The best three of many numbers rarely change. Nor does a switch that waits for its input to leave a band. So such a nest
has its steps in one more form, which it takes where this was faster in the last stretch of steps.
"""

from collections.abc import Sequence

from scanjit.kinds import kind_of
from scanjit.ops.elementwise import ADD, MAXIMUM, MINIMUM, WHERE
from scanjit.ops.promotion import CAST
from scanjit.schedule.nests import Apply, Linear, Literal, Load, Nest, Reduce, Register, Value, walk_values
from scanjit.target import Target


def still_lanes(nest: Nest, target: Target) -> int:
    """How many steps are computed from one state; 0 if the steps of a nest have no such form."""
    time = nest.time
    if time is None or nest.space or nest.reverse or nest.reach is not None or nest.until is not None:
        return 0
    if not target.is_x86 or not nest.repeatable:
        return 0
    for value in nest.values:
        if isinstance(value, Load) and value.when != 1:
            return 0
        if isinstance(value, Reduce) or (value.accesses and not isinstance(value, Load)):
            return 0
    if any(store.add or store.access.strides.get(time) != 1 for store in nest.stores):
        return 0
    if not nest.registers or not all(map(_may_stay, nest.registers, nest.updates)):
        return 0
    lanes = target.lanes(max(value.dtype.itemsize for value in nest.values))
    return lanes if lanes > 1 else 0


def is_in_order(nest: Nest, steps: Sequence[Linear]) -> bool:
    """Whether linear steps bound carries by each other, as those of a list in order do. To compose them takes longer
    than to see that nothing changes."""
    carries = {step.register for step in steps}
    bounds = [bound for step in steps for bound in (step.low, step.high) if bound is not None]
    return (
        len(steps) > 1 and not carries.isdisjoint(walk_values(bounds)) and not any(step.unread for step in steps[:-1])
    )


def _may_stay(register: Register, value: Value) -> bool:
    """Whether a step may leave a register as it is."""
    if value is register:
        return True
    if not isinstance(value, Apply):
        return False
    if kind_of(value.dtype).is_mask:
        return register in walk_values([value])
    args = value.args
    if value.op is WHERE:
        return any(_may_stay(register, arg) for arg in args[1:])
    if value.op is ADD:
        return any(_may_stay(register, arg) and _may_be_0(other) for arg, other in (args, args[::-1]))
    return value.op in (MAXIMUM, MINIMUM) and any(_may_stay(register, arg) for arg in args)


def _may_be_0(value: Value) -> bool:
    """Whether a choice may be 0."""
    if not isinstance(value, Apply):
        return False
    zero = any(isinstance(arg, Literal) and arg.number == 0 for arg in value.args)
    return (value.op is WHERE and zero) or (value.op is CAST and kind_of(value.args[0].dtype).is_mask)
