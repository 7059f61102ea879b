"""The public functions of vectors, once for both backends: definition, allowed kinds, result, error bound."""

import operator
from collections.abc import Callable
from functools import partial
from operator import methodcaller
from typing import Any, NamedTuple

from . import (
    arith,
    math_arc,
    math_bessel,
    math_erf,
    math_exp,
    math_gamma,
    math_log,
    math_pow,
    math_random,
    math_trig,
    narrow,
)
from .lanes import rint, sqrt


class VectorFunction(NamedTuple):
    """One public function.

    Attributes
    ----------
    evaluate : callable
        Takes and returns `Lanes`.
    arity : int
        Number of operands, all of one type.
    families : str
        Allowed element families, of ``"f"``, ``"i"``, ``"u"``, ``"b"``.
    result : str
        ``"same"`` type, a ``"mask"`` of as many lanes, the same kind with ``"one"`` lane, or another kind's name with
        as many lanes.
    inline : bool
        True for a handful of instructions, which need no function of their own.
    """

    evaluate: Callable[..., Any]
    arity: int = 1
    families: str = "f"
    result: str = "same"
    inline: bool = False


FUNCTIONS: dict[str, VectorFunction] = {
    "fma": VectorFunction(lambda a, b, c: a.fma(b, c), 3, "fiu", inline=True),
    "minimum": VectorFunction(arith.minimum, 2, "fiu", inline=True),
    "maximum": VectorFunction(arith.maximum, 2, "fiu", inline=True),
    "foreseen_minimum": VectorFunction(lambda a, b: a.foreseen_extremum("minimum", b), 2),
    "foreseen_maximum": VectorFunction(lambda a, b: a.foreseen_extremum("maximum", b), 2),
    "abs": VectorFunction(arith.abs_any, 1, "fiu", inline=True),
    "neg": VectorFunction(operator.neg, 1, "fiu", inline=True),
    "sign": VectorFunction(arith.sign, 1, "fiu", inline=True),
    "sqrt": VectorFunction(sqrt, inline=True),
    "floor": VectorFunction(methodcaller("unary", "floor"), inline=True),
    "ceil": VectorFunction(methodcaller("unary", "ceil"), inline=True),
    "trunc": VectorFunction(methodcaller("unary", "trunc"), inline=True),
    "round": VectorFunction(rint, inline=True),
    "copysign": VectorFunction(lambda x, y: x.copysign(y), 2, inline=True),
    "isnan": VectorFunction(arith.isnan, result="mask", inline=True),
    "isinf": VectorFunction(arith.isinf, result="mask", inline=True),
    "isfinite": VectorFunction(arith.isfinite, result="mask", inline=True),
    "floordiv": VectorFunction(arith.floordiv, 2, "fiu"),
    "mod": VectorFunction(arith.mod, 2, "fiu"),
    "fmod": VectorFunction(arith.fmod, 2, "fiu"),
    "pow": VectorFunction(math_pow.pow, 2, "fiu"),
    "pow_of_known": VectorFunction(math_pow.pow_of_known, 3),
    "exp": VectorFunction(math_exp.exp),
    "exp2": VectorFunction(math_exp.exp2),
    "expm1": VectorFunction(math_exp.expm1),
    "tanh": VectorFunction(math_exp.tanh),
    "sigmoid": VectorFunction(math_exp.sigmoid),
    "sinh": VectorFunction(math_exp.sinh),
    "cosh": VectorFunction(math_exp.cosh),
    "log": VectorFunction(math_log.log),
    "log1p": VectorFunction(math_log.log1p),
    "log2": VectorFunction(math_log.log2),
    "log10": VectorFunction(math_log.log10),
    "softplus": VectorFunction(math_log.softplus),
    "log_sigmoid": VectorFunction(math_log.log_sigmoid),
    "sin": VectorFunction(math_trig.sin),
    "cos": VectorFunction(math_trig.cos),
    "erf": VectorFunction(math_erf.erf),
    "erfinv": VectorFunction(math_erf.erfinv),
    "i0e": VectorFunction(math_bessel.i0e),
    "i1e": VectorFunction(math_bessel.i1e),
    "arcsinh": VectorFunction(math_log.arcsinh),
    "arccosh": VectorFunction(math_log.arccosh),
    "arctanh": VectorFunction(math_log.arctanh),
    "digamma": VectorFunction(math_gamma.digamma),
    "erfc": VectorFunction(math_erf.erfc),
    "gammaln": VectorFunction(math_gamma.gammaln),
    "cbrt": VectorFunction(math_pow.cbrt),
    "tan": VectorFunction(math_trig.tan),
    "arcsin": VectorFunction(math_arc.arcsin),
    "arccos": VectorFunction(math_arc.arccos),
    "arctan": VectorFunction(math_arc.arctan),
    "arctan2": VectorFunction(math_arc.arctan2, 2),
    "round_bf16": VectorFunction(narrow.round_bf16, inline=True),
    "pair_bf16": VectorFunction(narrow.pair_bf16, 2, result="i32", inline=True),
    "round_i8": VectorFunction(narrow.round_i8, inline=True),
    "quad_i8": VectorFunction(narrow.quad_i8, 4, result="i32"),
    "quad_u8": VectorFunction(narrow.quad_u8, 4, result="i32"),
    "random_bits": VectorFunction(math_random.random_bits, 3, "i"),
    "random_uniform_f32": VectorFunction(math_random.random_uniform_f32, 3, "i", "f32"),
    "random_uniform_f64": VectorFunction(math_random.random_uniform_f64, 3, "i", "f64"),
    "random_normal_f32": VectorFunction(math_random.random_normal_f32, 3, "i", "f32"),
    "random_normal_f64": VectorFunction(math_random.random_normal_f64, 3, "i", "f64"),
    "random_shuffle": VectorFunction(math_random.random_shuffle, 4, "i"),
    "reduce_add": VectorFunction(arith.tree(operator.add), 1, "fiu", "one", True),
    "reduce_mul": VectorFunction(arith.tree(operator.mul), 1, "fiu", "one", True),
    "reduce_min": VectorFunction(arith.tree(arith.minimum), 1, "fiu", "one", True),
    "reduce_max": VectorFunction(arith.tree(arith.maximum), 1, "fiu", "one", True),
    "reduce_and": VectorFunction(arith.both, 1, "iub", "one", True),
    "reduce_or": VectorFunction(arith.either, 1, "iub", "one", True),
}

# Largest error in units in the last place, (float32, float64), with fma and without; the tests sweep it against mpmath.
# A subnormal result counts in units of the smallest subnormal.
# digamma: for x > 0. Below 0 the error is 1e-13 of max(1, |result|) (float64), because of cancellation near its zeros.
# gammaln: units of max(1, |result|); above 0 the error is also at most 9 units of the result, which has zeros there.
# fmt: off
BOUNDS: dict[str, tuple[float, float]] = {
    "sqrt": (0.5, 0.5), "exp": (0.8, 0.8), "exp2": (0.8, 0.8), "expm1": (1.5, 1.75), "tanh": (2.5, 2.5),
    "sigmoid": (2.5, 2.0), "sinh": (2.5, 2.5), "cosh": (2.0, 2.0), "log": (0.75, 0.75), "log1p": (0.75, 0.75),
    "log2": (0.75, 0.75), "log10": (0.75, 0.75), "softplus": (2.0, 2.0), "log_sigmoid": (2.0, 2.0),
    "sin": (0.51, 1.0), "cos": (0.51, 1.0), "erf": (1.5, 1.5), "pow": (0.51, 1.5), "digamma": (0.75, 4.0),
    "erfc": (4.5, 4.5), "cbrt": (0.51, 0.51), "tan": (0.51, 0.9), "arcsin": (0.51, 0.8), "arccos": (0.51, 0.8),
    "arctan": (0.51, 0.8), "arctan2": (0.51, 0.8), "gammaln": (4.0, 4.0),
    "erfinv": (4.0, 4.0), "i0e": (4.0, 4.0), "i1e": (4.0, 4.0), "arcsinh": (2.5, 2.5), "arccosh": (2.5, 2.5),
    "arctanh": (2.5, 2.5),
}
# fmt: on

# Names that each backend defines for itself: they involve memory, scalars, or a type in their name. Those in the
# first list have a suffix that says kind and lanes.
SUFFIXED = frozenset(
    "load load_masked broadcast load_strided load_every_second load_every_fourth load_backwards gather transpose splat "
    "iota cast bitcast".split()
)
LANES_ONLY = frozenset({"head", "spread"})
PLAIN = frozenset(
    "store store_masked store_strided scatter load_i64 store_i64 peek_i64 barrier wait_for_first first_share next_share"
    " first_piece piece_end next_piece interrupted interrupted_at begin_loop count_steps end_loop clock stack select "
    "any_of all_of keep_branch report count_lanes lane_bits first_bit compress to_ends lane lane0 lane_i64 "
    "concat_lanes opaque select_freely dot_bf16 dot_apart dot_i8 pause prefetch".split()
)
MATRICES = {f"add_products{count}_{kind}": count for count in (1, 2, 3, 4) for kind in ("bf16", "u8i8", "i8u8")}
"""Maps each function that multiplies matrices in registers to the number of right matrices that it takes."""
MATRIX_SUMS = {f"{action}_sums{count}": count for count in (1, 2, 3, 4) for action in ("begin", "end")}
"""Maps each function that moves so many matrices of sums into or out of registers to their number."""
PLAIN |= {"begin_matrices", "end_matrices", *MATRICES, *MATRIX_SUMS}
LAPACK = ("potrf", "getrf", "geqrf", "ormqr", "syevd", "gesdd", "trsm", "gemm")
PLAIN |= {f"{routine}_{kind}" for routine in LAPACK for kind in ("f32", "f64")}


def _slid(up: bool, count: int, lanes: int) -> list[int]:
    return [*range(2 * lanes - count, 2 * lanes), *range(lanes - count)] if up else [*range(count, count + lanes)]


SHUFFLES: dict[str, tuple[int, Callable[[int], list[int]]]] = {
    f"slide_{way}{count}": (2 * count, partial(_slid, way == "up", count))
    for way in ("up", "down")
    for count in (1, 2, 4, 8)
}
SHUFFLES |= {
    "evens": (1, lambda lanes: [*range(0, 2 * lanes, 2)]),
    "odds": (1, lambda lanes: [*range(1, 2 * lanes, 2)]),
    "paired_low": (1, lambda lanes: [i // 2 + i % 2 * lanes for i in range(lanes)]),
    "paired_high": (1, lambda lanes: [i // 2 + i % 2 * lanes for i in range(lanes, 2 * lanes)]),
    "reversed_lanes": (1, lambda lanes: [*range(lanes - 1, -1, -1)]),
}
SHUFFLES |= {
    f"partners{flip}": (1 << flip.bit_length(), partial(lambda flip, lanes: [i ^ flip for i in range(lanes)], flip))
    for flip in (1, 2, 3, 4, 7, 8, 15)
}
SHUFFLES |= {
    f"alternate{run}": (2 * run, partial(lambda run, lanes: [i + (lanes if i & run else 0) for i in range(lanes)], run))
    for run in (1, 2, 4, 8)
}
"""Functions of (x, other), two vectors of one type. Each row has the fewest lanes that the function takes, and a
function from the number of lanes to the lanes of the result, counted through both vectors. Slides move the lanes of x
by `count`. Up: lane 0 goes to lane `count`, and the last lanes of the other vector move in below. Down: the first lanes
of the other vector move in above. The next rows separate pairs, make pairs of two vectors (of their first or second
half), and turn x around. `partners` exchanges the lanes of x whose numbers differ in these bits, and `alternate` takes
runs of so many lanes from x and from the other vector by turns."""
