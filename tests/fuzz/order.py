"""Sorting and searching in random programs."""

from __future__ import annotations

import scanjit as st
from scanjit.ir import Node
from tests.fuzz.builder import Builder


def _axis(b: Builder, x: Node) -> int:
    return b.rnd.randrange(-x.ndim, x.ndim)


def ordered(b: Builder) -> Node | None:
    """Sorted values, or places in order. Places are found of exact values only: rounding changes an order."""
    x = b.steady("fi" if b.chance(0.8) else "fiub")
    if not x.ndim or any(b.number(n) < 1 for n in x.type.shape):
        return None
    axis, down = _axis(b, x), b.chance(0.3)
    size = x.type.shape[axis]
    way = b.rnd.randrange(8)
    if way <= 1:
        made = st.sort(x, axis, descending=down)
    elif way == 2 and x in b.exact:
        made = st.argsort(x, axis, descending=down)
    elif way == 3 and x in b.exact:
        values, places = st.top_k(x, b.rnd.randint(1, min(b.number(size), 3)), axis)
        b.exact.update((values, places))
        b.add(places)
        made = values
    elif way == 4:
        made = st.partition(x, b.rnd.randrange(b.number(size)), axis)
        return st.sort(made, axis)  # which of the parts' entries comes first is not promised
    elif way == 5 and x.dtype.kind == "f":
        return st.median(x, axis)
    elif way == 6 and x.dtype.kind == "f":
        if b.chance(0.3):
            return st.percentile(x, b.rnd.choice((0, 25, 90)), axis)
        return st.quantile(x, b.rnd.choice((0.0, 0.3, 0.5, 1.0)), axis, b.rnd.choice(("linear", "lower", "higher")))
    else:
        return None
    if x in b.exact:
        b.exact.add(made)
    return made


def searched(b: Builder) -> Node | None:
    """searchsorted, digitize and bincount, of exact values."""
    x = b.pick(lambda n: n in b.exact and n.ndim == 1, "fi")
    v = b.pick(lambda n: n in b.exact, "fi")
    if x is None or v is None or v.ndim > 3:
        return None
    way = b.rnd.randrange(4)
    if way == 3:
        n = b.need(lambda n: n in b.exact and 0 < n.ndim < 3, "iu")
        made = st.unique(st.cast(n, "int64") % 3, 4, fill_value=7)
    elif way == 2:
        n = b.need(lambda n: n in b.exact and n.ndim == 1, "iu")
        made = st.bincount(st.cast(n, "int64") % 4, length=4)
    elif way == 1:
        made = st.digitize(v, st.sort(x), b.chance(0.5))
    else:
        made = st.searchsorted(st.sort(x), v, b.rnd.choice(("left", "right")))
    b.exact.add(made)
    return made
