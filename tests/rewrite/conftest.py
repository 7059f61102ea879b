"""Every test of the rewrites verifies the graph after every pass."""

import pytest

from scanjit.rewrite import pipeline


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "VERIFY", True)
