"""Types of values: a dtype and a symbolic shape, whose sizes are dimensions (see `scanjit.types.dims`)."""

from scanjit.types import pickling
from scanjit.types.conditions import (
    Condition,
    Shapes,
    broadcast,
    collecting,
    equate,
    escaped,
    other_shape,
    require,
    shape_text,
)
from scanjit.types.dims import (
    Atom,
    Dim,
    Dimension,
    as_atom,
    as_int,
    as_ints,
    atoms,
    dim_of,
    exact_quotient,
    functions_in,
    maximum,
    minimum,
    monomial,
    not_negative,
    product,
    square_root,
    terms,
    text,
    upper_bound,
)
from scanjit.types.dtypes import DTYPES, DtypeName, dtype_of, is_in_memory, of_arguments, promote
from scanjit.types.named import anonymous_size, axis_size, counter, is_named, label, size, value_dim
from scanjit.types.substitute import Numbers, evaluate, formula, remainder, substitute
from scanjit.types.type import LARGEST, Type, agree, check_memory
