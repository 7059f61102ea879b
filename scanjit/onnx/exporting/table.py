"""The ops that can be written, each with its rule.

A rule gets the writer, the node and the names of its operands. It writes the nodes of ONNX, and returns the name of its
result, or the names of several. Ops that are not here have no equivalent in ONNX: random numbers, factorizations, gamma
functions."""

from scanjit.onnx.exporting import elementwise as e, fourier, loops, products, searches, shapes as s
from scanjit.onnx.exporting.convolutions import pooled
from scanjit.onnx.exporting.writer import Rule
from scanjit.onnx.tensors import BFLOAT16
from scanjit.ops.narrow import LARGEST_INT8, LEAST_INT8

INT8 = (LEAST_INT8, LARGEST_INT8)

_SAME = "cos cosh det div equal erf exp log pow sigmoid sign sin sinh sqrt sub tan tanh".split()
"""Ops that ONNX has by the same name, but for the capital letter."""
_NOT_COMPUTED = "assert_ clip_gradient copy expect print_ remark round_gradient specify_shape stop_gradient via".split()
"""Ops that give their first operand."""

TABLE: dict[str, Rule] = {
    **{name: e.plain(name.capitalize()) for name in _SAME},
    **dict.fromkeys(_NOT_COMPUTED, e.same),
    **{name: s.reduction(f"Reduce{name.capitalize()}") for name in ("min", "prod")},
    "max": pooled("ReduceMax"),
    "supremum": s.reduction("ReduceMax"),
    "sum": pooled("ReduceSum"),
    # arithmetic
    "abs": lambda w, node, x: x if node.type.kind.never_negative else w.op("Abs", x),
    "add": e.plain("Add", "Or"),
    "cbrt": e.formula(lambda w, k, x: w.op("Mul", w.op("Sign", x), w.op("Pow", w.op("Abs", x), k(1 / 3)))),
    "ceil": e.rounding("Ceil"),
    "clip": lambda w, node, x, low, high: w.op("Min", w.op("Max", x, low), high),
    "floor": e.rounding("Floor"),
    "floordiv": e.floordiv,
    "maximum": e.plain("Max", "Or"),
    "minimum": e.plain("Min", "And"),
    "mod": e.mod,
    "mul": e.plain("Mul", "And"),
    "neg": e.neg,
    "round": e.rounding("Round"),
    "trunc": e.trunc,
    # functions
    "arccos": e.plain("Acos"),
    "arccosh": e.plain("Acosh"),
    "arcsin": e.plain("Asin"),
    "arcsinh": e.plain("Asinh"),
    "arctan": e.plain("Atan"),
    "arctan2": e.formula(e.arctan2),
    "arctanh": e.plain("Atanh"),
    "erfc": e.formula(lambda w, k, x: w.op("Sub", k(1), w.op("Erf", x))),
    "exp2": e.formula(lambda w, k, x: w.op("Pow", k(2), x)),
    "expm1": e.formula(e.expm1),
    "log10": e.scaled_log(10),
    "log1p": e.formula(e.log1p),
    "log2": e.scaled_log(2),
    "log_sigmoid": lambda w, node, x: w.op("Neg", e.softplus(w, node, w.op("Neg", x))),
    "relu": e.relu,
    "softplus": e.softplus,
    # comparisons and logic
    "and": e.bitwise("And"),
    "greater": e.compared("Greater"),
    "greater_equal": e.compared("GreaterOrEqual"),
    "invert": lambda w, node, x: w.op("Not" if node.type.kind.is_mask else "BitwiseNot", x),
    "isinf": e.plain("IsInf"),
    "isnan": e.plain("IsNaN"),
    "left_shift": e.left_shift,
    "less": e.compared("Less"),
    "less_equal": e.compared("LessOrEqual"),
    "not_equal": lambda w, node, a, b: w.op("Not", w.op("Equal", a, b)),
    "or": e.bitwise("Or"),
    "right_shift": e.right_shift,
    "where": lambda w, node, *operands: w.where(*operands, node.dtype),
    "xor": e.bitwise("Xor"),
    # dtypes, and ops that pass their operand on
    "cast": lambda w, node, x: w.cast(x, node.dtype),
    "keep": lambda w, node, x: w.cast(x, node.dtype),
    "round_bfloat16": lambda w, node, x: w.cast(w.op("Cast", x, to=BFLOAT16), node.dtype),
    "round_int8": lambda w, node, x: w.op("Clip", w.op("Round", x), *(w.constant(k, node.dtype) for k in INT8)),
    "constant": lambda w, node: w.constant(node.params["data"].array),
    "custom": lambda w, node, *operands: operands[: node.params["results"]],
    # shapes and indices
    "broadcast_to": lambda w, node, x: w.op("Expand", x, w.vector(node.type.shape)),
    "concatenate": lambda w, node, *xs: w.op("Concat", *xs, axis=node.params["axis"]),
    "dimshuffle": s.dimshuffle,
    "gather": s.gather,
    "iota": lambda w, node: s.counted(w, node.params["length"]),
    "reshape": s.reshape,
    "scatter": s.scatter,
    "set_slice": s.set_slice,
    "size": lambda w, node: w.dim(node.params["dim"]),
    "slice": s.slice_,
    "windows": s.windows,
    # reductions and products
    "all": s.all_,
    "any": s.any_,
    "argmax": s.position("ArgMax"),
    "argmin": s.position("ArgMin"),
    "argsort": s.order,
    "sort": s.ordered,
    "argranked": s.ranked_places,
    "ranked": s.ranked,
    "argpartition": lambda w, node, x, ranks: s.order(w, node, x),
    "partition": lambda w, node, x, ranks: s.ordered(w, node, x),
    "where_true": s.where_true,
    "searched": searches.searched,
    "fourier": fourier.transform,
    "from_half_spectrum": fourier.from_half_spectrum,
    "half_spectrum": fourier.half_spectrum,
    "contract": products.contract,
    # loops and branches
    "ifelse": loops.ifelse,
    "scan": loops.scan,
}
