"""Functions of a whole sequence, cut into steps: what one step needs of the steps before it becomes a state."""

from scanjit.streaming.function import StepFunction, step_function

__all__ = ["StepFunction", "step_function"]
