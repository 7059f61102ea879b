"""One of several ways to compute a nest."""

from typing import NamedTuple

from scanjit.schedule.nests import Nest
from scanjit.types import Dimension


class Variant(NamedTuple):
    """A variant of a nest. `when` is 1 in calls that run it, 0 in others."""

    nest: Nest
    when: Dimension
