"""Python's operators on nodes, each an elementwise op."""

from scanjit.ir import Node, apply
from scanjit.ops import elementwise as ops
from scanjit.ops.functions import POW
from scanjit.ops.promotion import CAST, SIZE_OPERATORS

_ARITHMETIC = {"add": ops.ADD, "sub": ops.SUB, "mul": ops.MUL, "truediv": ops.DIV, "floordiv": ops.FLOORDIV}
_ARITHMETIC |= {"mod": ops.MOD, "pow": POW}
_BITS = {"and": ops.AND, "or": ops.OR, "xor": ops.XOR, "lshift": ops.LEFT_SHIFT, "rshift": ops.RIGHT_SHIFT}
_COMPARISONS = {"lt": ops.LESS, "le": ops.LESS_EQUAL, "gt": ops.GREATER, "ge": ops.GREATER_EQUAL}
_COMPARISONS |= {"eq": ops.EQUAL, "ne": ops.NOT_EQUAL}
for _name, _op in {"neg": ops.NEG, "abs": ops.ABS, "invert": ops.INVERT}.items():
    setattr(Node, f"__{_name}__", lambda x, op=_op: apply(op, x))
for _name, _op in {**_ARITHMETIC, **_BITS, **_COMPARISONS}.items():
    setattr(Node, f"__{_name}__", lambda x, other, op=_op: apply(op, x, other))
for _name, _op in {**_ARITHMETIC, **_BITS}.items():
    setattr(Node, f"__r{_name}__", lambda x, other, op=_op: apply(op, other, x))
SIZE_OPERATORS.update((*_ARITHMETIC.values(), ops.NEG, ops.ABS, CAST))
SIZE_OPERATORS.add(ops.SQRT)  # `x.shape[0] ** 0.5` is one
