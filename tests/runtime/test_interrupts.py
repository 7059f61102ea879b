"""A few interrupts of every kind; `python -m tests.interrupts` makes as many as one likes."""

import signal

import pytest

from tests.interrupts.kinds import kinds
from tests.interrupts.storm import interrupt

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")


def test_interrupts_at_random_moments_leave_nothing_half_done():
    for kind in kinds():
        assert not interrupt(kind, 60), kind.name
