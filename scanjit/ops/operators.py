"""Python's operators on nodes, each an elementwise op."""

from scanjit.ir import Node, apply
from scanjit.ops.elementwise import (
    ABS,
    ADD,
    AND,
    DIV,
    EQUAL,
    FLOORDIV,
    GREATER,
    GREATER_EQUAL,
    INVERT,
    LEFT_SHIFT,
    LESS,
    LESS_EQUAL,
    MOD,
    MUL,
    NEG,
    NOT_EQUAL,
    OR,
    RIGHT_SHIFT,
    SQRT,
    SUB,
    XOR,
)
from scanjit.ops.functions import POW
from scanjit.ops.promotion import CAST, SIZE_OPERATORS

_BINARY = {"add": ADD, "sub": SUB, "mul": MUL, "truediv": DIV, "floordiv": FLOORDIV, "mod": MOD, "pow": POW}
_BINARY |= {"and": AND, "or": OR, "xor": XOR, "lshift": LEFT_SHIFT, "rshift": RIGHT_SHIFT}
_COMPARISONS = {"lt": LESS, "le": LESS_EQUAL, "gt": GREATER, "ge": GREATER_EQUAL, "eq": EQUAL, "ne": NOT_EQUAL}
for _name, _op in {"neg": NEG, "abs": ABS, "invert": INVERT}.items():
    setattr(Node, f"__{_name}__", lambda x, op=_op: apply(op, x))
for _name, _op in {**_BINARY, **_COMPARISONS}.items():
    setattr(Node, f"__{_name}__", lambda x, other, op=_op: apply(op, x, other))
for _name, _op in _BINARY.items():
    setattr(Node, f"__r{_name}__", lambda x, other, op=_op: apply(op, other, x))
SIZE_OPERATORS.update((ADD, SUB, MUL, DIV, FLOORDIV, MOD, POW, NEG, ABS, CAST))
SIZE_OPERATORS.add(SQRT)  # `x.shape[0] ** 0.5` is one
