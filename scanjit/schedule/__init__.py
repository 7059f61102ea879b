"""From graph to loop nests: what is computed together, where values lie, in which order."""

from scanjit.schedule.nests import Program
from scanjit.schedule.pipeline import fused_program, schedule

__all__ = ["Program", "fused_program", "schedule"]
