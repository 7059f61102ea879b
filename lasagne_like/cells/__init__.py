"""Cells: each is one step of a recurrence, with its parameters.

`lasagne_like.layers.RNNLayer` runs a cell over all steps of a sequence. `step_function` compiles a single step.
"""

from lasagne_like.cells.attention import *  # noqa: F403
from lasagne_like.cells.base import *  # noqa: F403
from lasagne_like.cells.convlstm import *  # noqa: F403
from lasagne_like.cells.deltanet import *  # noqa: F403
from lasagne_like.cells.gate import *  # noqa: F403
from lasagne_like.cells.gated import *  # noqa: F403
from lasagne_like.cells.grid import *  # noqa: F403
from lasagne_like.cells.grouped import *  # noqa: F403
from lasagne_like.cells.gru import *  # noqa: F403
from lasagne_like.cells.indy import *  # noqa: F403
from lasagne_like.cells.intersection import *  # noqa: F403
from lasagne_like.cells.loop import *  # noqa: F403
from lasagne_like.cells.lru import *  # noqa: F403
from lasagne_like.cells.lstm import *  # noqa: F403
from lasagne_like.cells.mamba import *  # noqa: F403
from lasagne_like.cells.minimal import *  # noqa: F403
from lasagne_like.cells.nas import *  # noqa: F403
from lasagne_like.cells.noise import *  # noqa: F403
from lasagne_like.cells.onednn import *  # noqa: F403
from lasagne_like.cells.phased import *  # noqa: F403
from lasagne_like.cells.projections import *  # noqa: F403
from lasagne_like.cells.raw import *  # noqa: F403
from lasagne_like.cells.rwkv import *  # noqa: F403
from lasagne_like.cells.simple import *  # noqa: F403
from lasagne_like.cells.stepping import *  # noqa: F403
from lasagne_like.cells.variants import *  # noqa: F403
from lasagne_like.cells.wrappers import *  # noqa: F403
from lasagne_like.cells.xlstm import *  # noqa: F403
