"""The op table. All that belongs to an op is defined in one place: `scanjit.ir.Op` lists it."""

from scanjit.ir import OPS
from scanjit.ops import (
    branch,
    contraction,
    custom,
    decompositions,
    elementwise,
    expect,
    extremes,
    fourier,
    functions,
    guest,
    index,
    narrow,
    operators,
    probe,
    prod,
    random,
    scan,
    shape,
    sorting,
    systems,
    windows,
)
from scanjit.ops.contraction import Contraction
from scanjit.ops.extremes import ArgReduction
from scanjit.ops.promotion import Elementwise
from scanjit.ops.reduction import Reduction
from scanjit.ops.view import View

BUILT_IN = frozenset(OPS)
"""The names of our own ops. An op that somebody else adds may be defined differently in another process."""
