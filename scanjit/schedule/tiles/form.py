"""A nest in one of several forms."""

from typing import NamedTuple

from scanjit.schedule.nests import Nest
from scanjit.types import Dimension


class NestForm(NamedTuple):
    """A form of a nest. `when` is 1 in calls that compute this form, 0 in others."""

    nest: Nest
    when: Dimension
