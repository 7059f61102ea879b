"""The functions of `scanjit.tensor` as a namespace; its own name is also that of the function `tensor`."""

from scanjit.tensor import *  # noqa: F403
