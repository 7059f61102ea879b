"""The table of local algebra: the rules of several files, one after the other. It is made once, since a node remembers
the table none of whose rules changes it."""

from scanjit.rewrite import algebra, algebra_index, algebra_linalg, algebra_shape, branches

RULES = (
    branches.rules
    | algebra.rules
    | algebra.taken_apart
    | algebra_shape.rules
    | algebra_index.rules
    | algebra_linalg.rules
)
