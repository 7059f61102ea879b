"""The loop-nest IR: what a program does, between the graph and its source code.

A `Program` is a list of statements over buffers: nests (everything that computes), packs (right operands of products,
laid out in panels), and loops over time. Positions in a buffer are *dimensions* (polynomials, see `scanjit.types`) in
elements; inside a loop they may contain the loop's counter, which is an atom like any other.

A `Nest` computes values at every point of its space and stores them. A value is a small expression: loads at affine
positions, elementwise ops, reductions over loops of their own. A product of matrices is a reduction whose term is the
product of two loads; nothing else in this package knows what a GEMM is, except the choice of the register tile.
"""

from scanjit.schedule.nests.array_job import BANDS, GuestCall, WhereTrue
from scanjit.schedule.nests.branches import Beside, If, Wave
from scanjit.schedule.nests.buffers import LINE, SCRATCH_BYTES, Buffer, Ref, row_major, with_room
from scanjit.schedule.nests.fourier import (
    ALONE_BYTES,
    Form,
    Fourier,
    RootsOfUnity,
    most_across,
    parts_of,
    work_of,
)
from scanjit.schedule.nests.lapack import LARGEST, Decomposition, LapackCall, most_beside
from scanjit.schedule.nests.lifetime import Lifetime
from scanjit.schedule.nests.likeness import Correspondence, Likeness
from scanjit.schedule.nests.loops import NestLoop, joined
from scanjit.schedule.nests.nest import Few, Lanewise, Linear, Nest, Store, nests_of, one_of, rereads, small
from scanjit.schedule.nests.pack import Pack
from scanjit.schedule.nests.program import Program
from scanjit.schedule.nests.sorting import ACROSS, ALONG, MOST_PACKED, SORTED, TOGETHER, Order, bands_of
from scanjit.schedule.nests.statement import Job, Statement, Traffic, every_in, jobs_of
from scanjit.schedule.nests.steps import Blocks, OwnRows, RowsApart, TimeLoop, Turn
from scanjit.schedule.nests.tile import Tile
from scanjit.schedule.nests.values import (
    Access,
    Apply,
    Fetch,
    Index,
    Literal,
    Load,
    Position,
    Reduce,
    Register,
    Search,
    Value,
    finds_first,
    fits_any_width,
    in_one_lane,
    loops_of,
    places_read,
    reductions_in,
    substitute,
    walk_values,
)
