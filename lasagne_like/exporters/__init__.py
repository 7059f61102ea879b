"""Networks as code that runs without this package."""

from lasagne_like.exporters.numpy import *  # noqa: F403
