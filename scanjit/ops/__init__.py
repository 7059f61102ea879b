"""The op table. Each op is defined whole, in one place: see `scanjit.ir.Op` for what that takes."""

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

__all__ = [
    "ArgReduction",
    "Contraction",
    "Elementwise",
    "Reduction",
    "View",
    "branch",
    "custom",
    "elementwise",
    "expect",
    "factor",
    "index",
    "linalg",
    "probe",
    "random",
    "reduce",
    "scan",
    "shape",
    "windows",
]
