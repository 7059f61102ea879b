"""The functions that users write with: symbols, NumPy's functions on them, and the methods and operators of `Node`."""

from typing import TYPE_CHECKING

from scanjit.tensor import from_sympy, protocol, variables
from scanjit.tensor.activations import *  # noqa: F403
from scanjit.tensor.choices import *  # noqa: F403
from scanjit.tensor.complex_numbers import *  # noqa: F403
from scanjit.tensor.convolution import *  # noqa: F403
from scanjit.tensor.creation import *  # noqa: F403
from scanjit.tensor.cumulative import *  # noqa: F403
from scanjit.tensor.curves import *  # noqa: F403
from scanjit.tensor.cutting import *  # noqa: F403
from scanjit.tensor.decompositions import *  # noqa: F403
from scanjit.tensor.elementwise import *  # noqa: F403
from scanjit.tensor.fourier import *  # noqa: F403
from scanjit.tensor.fourier_axes import *  # noqa: F403
from scanjit.tensor.from_sympy import *  # noqa: F403
from scanjit.tensor.indexing import *  # noqa: F403
from scanjit.tensor.joining import *  # noqa: F403
from scanjit.tensor.least_squares import *  # noqa: F403
from scanjit.tensor.linalg import *  # noqa: F403
from scanjit.tensor.nans import *  # noqa: F403
from scanjit.tensor.norms import *  # noqa: F403
from scanjit.tensor.order import *  # noqa: F403
from scanjit.tensor.places import *  # noqa: F403
from scanjit.tensor.polynomials import *  # noqa: F403
from scanjit.tensor.pooling import *  # noqa: F403
from scanjit.tensor.products import *  # noqa: F403
from scanjit.tensor.quantiles import *  # noqa: F403
from scanjit.tensor.questions import *  # noqa: F403
from scanjit.tensor.reductions import *  # noqa: F403
from scanjit.tensor.shapes import *  # noqa: F403
from scanjit.tensor.special import *  # noqa: F403
from scanjit.tensor.statistics import *  # noqa: F403
from scanjit.tensor.transposed import *  # noqa: F403
from scanjit.tensor.variables import *  # noqa: F403

protocol.install()

NAMES = sorted([*variables.NAMES, *protocol.FUNCTIONS, *from_sympy.__all__])
if not TYPE_CHECKING:  # type checkers cannot compute it; without it they see all that is imported
    __all__ = NAMES
