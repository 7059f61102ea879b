"""The op table. All that belongs to an op is defined in one place: `scanjit.ir.Op` lists it."""

from scanjit.ops import (
    branch,
    custom,
    elementwise,
    expect,
    factor,
    index,
    linalg,
    probe,
    random,
    reduce,
    scan,
    shape,
    windows,
)
from scanjit.ops.elementwise import Elementwise
from scanjit.ops.linalg import Contraction
from scanjit.ops.reduce import ArgReduction
from scanjit.ops.reduction import Reduction
from scanjit.ops.view import View
