"""`config.check_finite`: find the first value of a run that is NaN or infinite."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scanjit import errors
from scanjit.ir import CONSTANT, PART, SHARED, Node
from scanjit.kinds import kind_of
from scanjit.ops.promotion import Elementwise
from scanjit.runtime.probes import formula
from scanjit.runtime.watch import At, Watch, described


class Finite(Watch):
    """Raises a `NonFiniteError` at the first op whose result has a NaN or an infinity though its operands have none.

    An infinity may be a constant of the graph, as in a mask. Values that are computed from it may then be infinite, but
    not NaN. With `nan_only`, only NaN counts.
    """

    def __init__(self, nan_only: bool) -> None:
        self.nan_only = nan_only

    def given(self, node: Node, value: np.ndarray) -> None:
        bad = _first(np.isnan(value) if self.nan_only else ~np.isfinite(value)) if _is_float(value) else None
        if bad is None:
            return
        kind = "the shared variable" if node.op is SHARED else "argument"
        name = node.params["variable"].name if node.op is SHARED else node.name
        raise errors.NonFiniteError(
            f"{kind} {name or '(without a name)'} is not finite",
            got=_element(value, bad),
            expected="no NaN" if self.nan_only else "neither NaN nor infinity",
            fix=_ALLOW if not np.isnan(value[bad]) else None,
            where=node.where,
        )

    def computed(self, node: Node, operands: Sequence[Any], value: Any, at: At) -> None:
        if node.op in (CONSTANT, PART) or isinstance(value, tuple) or not _is_float(value):
            return
        bad = self._made(value, operands)
        if bad is None:
            return
        infinite = not np.isnan(value[bad])
        raise errors.NonFiniteError(
            f"the first {'infinity' if infinite else 'NaN'} is made by {node.op.name}{described(at)}",
            got=f"{_element(value, bad)} of {formula(node, at)}{_inputs(node, operands, value, bad)}",
            expected="finite values, as sj.config.check_finite is on",
            fix=_ALLOW if infinite else None,
            where=node.where,
        )

    def _made(self, value: np.ndarray, operands: Sequence[Any]) -> tuple[int, ...] | None:
        """The position of the first NaN (or infinity), if no operand has a NaN (or an infinity)."""
        given = [x for x in operands if isinstance(x, np.ndarray) and _is_float(x)]
        if not any(np.isnan(x).any() for x in given) and (found := _first(np.isnan(value))) is not None:
            return found
        if self.nan_only or any(np.isinf(x).any() for x in given):
            return None
        return _first(np.isinf(value))


_ALLOW = 'where infinities are meant, set sj.config.check_finite = "nan"'


def _is_float(value: np.ndarray) -> bool:
    return kind_of(value.dtype).floating


def _first(mask: np.ndarray) -> tuple[int, ...] | None:
    if not mask.any():
        return None
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


def _element(value: np.ndarray, at: tuple[int, ...]) -> str:
    place = f" at {list(at)}" if at else ""
    return f"{value[at]}{place}"


def _inputs(node: Node, operands: Sequence[Any], value: np.ndarray, bad: tuple[int, ...]) -> str:
    """The operands, as text: of an elementwise op their values at the same position, else the range of each."""
    if not operands:
        return ""
    if isinstance(node.op, Elementwise):
        parts = [str(np.broadcast_to(x, value.shape)[bad]) for x in operands]
    else:
        parts = [_range(np.asarray(x)) for x in operands if not isinstance(x, tuple)]
    return f", made of {', '.join(parts)}"


def _range(x: np.ndarray) -> str:
    if x.ndim == 0 or not x.size:
        return str(x[()]) if x.ndim == 0 else f"an empty {x.shape}"
    return f"{x.shape} from {x.min()} to {x.max()}"
