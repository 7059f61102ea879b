"""The worker threads of this process, as their memory shows them."""

from __future__ import annotations

from scanjit.runtime.native import native
from scanjit.runtime.structures import TeamFields


def _team() -> TeamFields:
    return TeamFields.from_address(native().team)


def busy() -> bool:
    """Whether a program uses the workers."""
    return _team().busy != 0


def count() -> int:
    """How many workers have been started."""
    return int(_team().workers)


def nobody_works() -> bool:
    """Whether no program uses the workers, and none of them runs one."""
    team = _team()
    return not team.busy and not any(slot.table for slot in team.slots[: team.workers])
