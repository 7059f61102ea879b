"""Calls of guests as Python source."""

from scanjit.codegen.places import STATUS
from scanjit.codegen.source import Parameters, Source
from scanjit.schedule.nests import GuestCall
from scanjit.target import Target


def guest_source(call: GuestCall, target: Target) -> Source:
    """The source of a function that calls a guest once."""
    parameters = Parameters()
    given = [parameters.address(STATUS, 0), str(call.code)]
    given += [parameters.address(ref.buffer, ref.offset) for ref, _ in call.arrays]
    given += [parameters.number(size) for ref, _ in call.arrays for size in ref.shape]
    return parameters.source(call.title, [f"    {call.guest.symbol}({', '.join(given)})"], [])
