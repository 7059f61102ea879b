"""Layers, and functions of whole networks."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from lasagne_like.foreign import no_layer as _no_layer
from lasagne_like.layers.base import *  # noqa: F403
from lasagne_like.layers.bidirectional import *  # noqa: F403
from lasagne_like.layers.conv import *  # noqa: F403
from lasagne_like.layers.crop import *  # noqa: F403
from lasagne_like.layers.cudnn import *  # noqa: F403
from lasagne_like.layers.delay import *  # noqa: F403
from lasagne_like.layers.dense import *  # noqa: F403
from lasagne_like.layers.embedding import *  # noqa: F403
from lasagne_like.layers.helper import *  # noqa: F403
from lasagne_like.layers.input import *  # noqa: F403
from lasagne_like.layers.local import *  # noqa: F403
from lasagne_like.layers.merge import *  # noqa: F403
from lasagne_like.layers.noise import *  # noqa: F403
from lasagne_like.layers.normalization import *  # noqa: F403
from lasagne_like.layers.pool import *  # noqa: F403
from lasagne_like.layers.rectifiers import *  # noqa: F403
from lasagne_like.layers.recurrent import *  # noqa: F403
from lasagne_like.layers.reverse import *  # noqa: F403
from lasagne_like.layers.rnn import *  # noqa: F403
from lasagne_like.layers.select import *  # noqa: F403
from lasagne_like.layers.sequencer import *  # noqa: F403
from lasagne_like.layers.shape import *  # noqa: F403
from lasagne_like.layers.special import *  # noqa: F403
from lasagne_like.layers.stepping import *  # noqa: F403
from lasagne_like.layers.summaries import *  # noqa: F403
from lasagne_like.layers.transformer import *  # noqa: F403
from lasagne_like.layers.upscale import *  # noqa: F403

if not _TYPE_CHECKING:  # it would allow every name

    def __getattr__(name: str) -> None:
        raise _no_layer(name, [one for one in globals() if not one.startswith("_")])
