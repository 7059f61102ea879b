"""Targets for tests."""

from scanjit.runtime import host
from scanjit.target import Target, target_for


def with_vectors(nbytes: int) -> Target:
    """This machine, with vectors of so many bytes."""
    here = host.target()
    return target_for(here.triple, here.name, here.features, nbytes)
