"""Cells: recurrences of one step, to be looped over by `lasagne_like.layers.RNNLayer` or run one step a call."""

from lasagne_like.cells.base import *  # noqa: F403
from lasagne_like.cells.convlstm import *  # noqa: F403
from lasagne_like.cells.gate import *  # noqa: F403
from lasagne_like.cells.gated import *  # noqa: F403
from lasagne_like.cells.gru import *  # noqa: F403
from lasagne_like.cells.loop import *  # noqa: F403
from lasagne_like.cells.lstm import *  # noqa: F403
from lasagne_like.cells.mamba import *  # noqa: F403
from lasagne_like.cells.minimal import *  # noqa: F403
from lasagne_like.cells.noise import *  # noqa: F403
from lasagne_like.cells.rglru import *  # noqa: F403
from lasagne_like.cells.simple import *  # noqa: F403
from lasagne_like.cells.slstm import *  # noqa: F403
from lasagne_like.cells.stepping import *  # noqa: F403
from lasagne_like.cells.wrappers import *  # noqa: F403
