"""The functions of `scanjit.tensor` under another name: `from scanjit import tensor` gives the function `tensor`."""

from scanjit.tensor import *  # noqa: F403
