"""Functions of a whole sequence, cut into steps. Everything that a step needs of the steps before it becomes a
state."""

from scanjit.streaming.function import StepFunction, step_function

__all__ = ["StepFunction", "step_function"]
