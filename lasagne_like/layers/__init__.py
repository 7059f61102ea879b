"""Layers, and what is asked of networks of them."""

from lasagne_like.layers.base import *  # noqa: F403
from lasagne_like.layers.dense import *  # noqa: F403
from lasagne_like.layers.helper import *  # noqa: F403
from lasagne_like.layers.input import *  # noqa: F403
