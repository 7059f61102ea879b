"""The op table. All that belongs to an op is defined in one place: `scanjit.ir.Op` lists it."""

from scanjit.ir import OPS
from scanjit.ops import (
    branch,
    custom,
    decompositions,
    elementwise,
    expect,
    factor,
    fourier,
    functions,
    guest,
    index,
    linalg,
    narrow,
    operators,
    order,
    probe,
    prod,
    random,
    reduce,
    scan,
    shape,
    windows,
)
from scanjit.ops.linalg import Contraction
from scanjit.ops.promotion import Elementwise
from scanjit.ops.reduce import ArgReduction
from scanjit.ops.reduction import Reduction
from scanjit.ops.view import View

BUILT_IN = frozenset(OPS)
"""The names of our own ops. An op that somebody else adds may be defined differently in another process."""
