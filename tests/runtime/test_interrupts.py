"""A few interrupts of every kind; `python -m tests.interrupts` makes as many as one likes."""

import signal

import pytest

from scanjit.runtime import probes
from tests.interrupts.kinds import kinds
from tests.interrupts.storm import interrupt

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")


def test_interrupts_at_random_moments_leave_nothing_half_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "print", print, raising=False)  # the kind that prints puts another one there
    for kind in kinds():
        assert not interrupt(kind, 60), kind.name
