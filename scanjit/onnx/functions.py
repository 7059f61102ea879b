"""The module `scanjit.tensor` under another name, because `from scanjit import tensor` imports the function
`tensor`."""

from scanjit.tensor import *  # noqa: F403
