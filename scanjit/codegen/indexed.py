"""Loads and stores of a nest at computed positions as source."""

from collections.abc import Sequence

from scanjit.codegen.frame import Frame, Point, ValueOf
from scanjit.codegen.names import INT64, suffix
from scanjit.codegen.places import STATUS
from scanjit.codegen.scope import Scope
from scanjit.kinds import kind_of
from scanjit.schedule.nests import Fetch, Index, Store
from scanjit.signatures import DType


def fetch(frame: Frame, value_of: ValueOf, value: Fetch, point: Point) -> str:
    """The expression for a load at computed positions."""
    level = frame.level_of(frame.depends(value))
    address, step = frame.vector(value.access, point)
    once = step == 0 and all(frame.lane not in frame.depends(index.value) for index in value.indices)
    address, offsets, inside = _indexed(
        frame, value_of, address, value.indices, value.code, value.dtype, point, level, once
    )
    if once:
        loaded = f"load_masked_{suffix(value.dtype, 1)}({address}, {inside})"
        return loaded if point.width == 1 else f"spread_x{point.width}({loaded})"
    name = suffix(value.dtype, point.width)
    if offsets is not None:
        if step != 0:
            long = suffix(INT64, point.width)
            offsets += f" + iota_{long}(0) * splat_{long}({frame.size(step)})"
        return f"gather_{name}({address}, {offsets}, {inside})"
    if step == value.dtype.itemsize:
        return f"load_masked_{name}({address}, {inside})"
    return f"load_strided_{name}({address}, {frame.size(step)}, {inside})"


def scatter(frame: Frame, value_of: ValueOf, store: Store, text: str, point: Point) -> None:
    """Store a variable at computed positions, or add it there."""
    dtype = store.access.buffer.dtype
    address, step = frame.vector(store.access, point)
    level = len(frame.scopes) - 1
    address, offsets, inside = _indexed(frame, value_of, address, store.indices, store.code, dtype, point, level)
    if offsets is not None:
        raise TypeError("lanes of a scatter must not meet in one element")
    name, steps = suffix(dtype, point.width), frame.size(step)
    if step in (0, dtype.itemsize):
        old, write = f"load_masked_{name}({address}, {inside})", f"store_masked({address}, {{}}, {inside})"
    else:
        old = f"load_strided_{name}({address}, {steps}, {inside})"
        write = f"store_strided({address}, {steps}, {{}}, {inside})"
    add = "|" if kind_of(dtype).is_mask else "+"
    frame.scope.add(write.format(f"{old} {add} {text}" if store.add else text))


def _indexed(
    frame: Frame,
    value_of: ValueOf,
    address: str,
    indices: Sequence[Index],
    code: int,
    dtype: DType,
    point: Point,
    level: int,
    once: bool = False,
) -> tuple[str, str | None, str]:
    """An address moved by computed indices, the offsets of the lanes (None: the same for all), and the mask of what
    lies inside: of one lane, if there is one place for all lanes and it is read `once`. What does not is reported."""
    long, scope = suffix(INT64, point.width), frame.scopes[level]
    varies = frame.lane is None or level >= frame.level.get(frame.lane, 0)
    width = 1 if once else point.width
    inside = frame.every(point) if varies and not once else frame.all_lanes(width)  # outside there is no tail
    offsets = None
    for index in indices:
        vector, ok = value_of(index.value, point), frame.fresh("ok")
        stride, size = frame.size(index.stride * dtype.itemsize), frame.size(index.size)
        if width == 1 or frame.lane not in frame.depends(index.value):
            k = frame.fresh("k")
            scope.add(f"{k} = lane_i64({vector}, 0)")
            scope.add(f"{ok} = {inside} & splat_boolx{width}(0 <= {k} < {size})")
            address += f" + {k}*{stride}"
        else:
            scope.add(f"{ok} = {inside} & ({vector} >= splat_{long}(0)) & ({vector} < splat_{long}({size}))")
            term = f"{vector} * splat_{long}({stride})"
            offsets = term if offsets is None else f"{offsets} + {term}"
        report = Scope(f"if any_of({inside} & ~{ok}):")
        report.add(f"store_i64({frame.address(STATUS, 0)}, {code})")
        scope.add(report)
        inside = ok
    return address, offsets, inside
