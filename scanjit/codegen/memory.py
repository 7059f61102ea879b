"""Loads and stores of a nest as source, at positions that follow from the counters of loops."""

from collections.abc import Sequence

from scanjit import types
from scanjit.codegen.frame import Frame, Point
from scanjit.codegen.lines import loaded, stored
from scanjit.codegen.names import number, suffix
from scanjit.ops.elementwise import MAXIMUM, MINIMUM, WHERE
from scanjit.records import replace
from scanjit.schedule.nests import LINE, Access, Apply, Load, Store
from scanjit.signatures import DType
from scanjit.types import Dimension

SHUFFLED = {2: "load_every_second", 4: "load_every_fourth", -1: "load_backwards"}
"""Vectors whose lanes are this many elements apart are loaded by shuffles."""


def load(frame: Frame, value: Load, point: Point) -> str:
    """The expression for a load. A float of 16 bits is widened if the load has another dtype."""
    text = _load_begun(frame, value, point) if value.when != 1 else _load(frame, value, point)
    return f"cast_{suffix(value.dtype, point.width)}({text})" if value.widens else text


def _load(frame: Frame, value: Load, point: Point) -> str:
    if (turned := frame.turned_vector(value.access, point)) is not None:
        return f"load_{suffix(value.dtype, point.width)}({turned})"
    address, step = frame.vector(value.access, point)
    kept = value.access.buffer.dtype
    name, mask = suffix(kept, point.width), frame.mask(point)
    if step == 0:
        return f"broadcast_{name}({address})"
    if isinstance(step, int) and (how := SHUFFLED.get(step // kept.itemsize)) is not None:
        return f"{how}_{name}({address}, {frame.every(point)})"
    if step != kept.itemsize:
        return f"load_strided_{name}({address}, {frame.size(step)}, {frame.every(point)})"
    if mask is None and (before := _one_before(frame, value.access, point)) is not None:
        stored, behind = frame.vector(before, point)[0], f"{address} + {(point.width - 1) * kept.itemsize}"
        return f"slide_down1(load_{name}({stored}), broadcast_{name}({behind}))"
    if mask is None or value.access.panel is not None or _has_room(frame, value.access, point):
        return f"load_{name}({address})"
    if (first := _in_brief_row(frame, value.access, point)) is not None:
        texts = [_zeros(kept, point)] * 2
        for i in range(min(_vectors(frame, value.access, point) - point.vector, 1 + (first > 0))):
            texts[i] = f"load_{name}({_row(frame, value.access, first, replace(point, vector=point.vector + i))})"
        return _slid(frame, texts[0], "down", first, texts[1], _zeros(kept, point))
    return f"load_masked_{name}({address}, {mask})"


def _one_before(frame: Frame, access: Access, point: Point) -> Access | None:
    """The place of another load of a nest, if this one reads from one element further on, and the nest stores rows of
    this buffer in the same vectors as the other load reads. A vector that reaches into two of them would wait until
    the stores of both have left the core."""
    buffer, first = access.buffer, access.offset - 1
    if point.width == 1 or buffer.row is None or frame.nest.time is not None:
        return None
    stores = (store.access for store in frame.nest.stores if store.access.buffer is buffer)
    if not any(types.remainder(store.offset - first, buffer.shape[-1]) == 0 for store in stores):
        return None
    loads = (value.access for value in frame.nest.values if isinstance(value, Load) and value.access.buffer is buffer)
    return next((other for other in loads if other.offset == first and other.strides == access.strides), None)


def _load_begun(frame: Frame, value: Load, point: Point) -> str:
    """A load that gives zero until something has been written there."""
    address, step = frame.vector(value.access, point)
    kept = value.access.buffer.dtype
    name, lanes = suffix(kept, point.width), f"head_x{point.width}({frame.size(value.when * point.width)})"
    begun, mask = frame.remember(0, lanes, "begun", lanes), frame.mask(point)
    if step == 0 and point.width > 1:
        return f"select({begun}, broadcast_{name}({address}), splat_{name}({number(kept.type(0))}))"
    inside = begun if mask is None else f"{begun} & {mask}"
    if step not in (0, kept.itemsize):
        return f"load_strided_{name}({address}, {frame.size(step)}, {inside})"
    return f"load_masked_{name}({address}, {inside})"


def _has_room(frame: Frame, access: Access, point: Point) -> bool:
    """Whether a vector that is not full may be loaded or stored as a full one, because the row has room behind its last
    element."""
    lane, (buffer, row) = frame.lane, (access.buffer, access.buffer.row)
    if lane is None or row is None or lane.size != row or lane is frame.tile.own:
        return False
    room, width = buffer.shape[-1], point.width * frame.tile.vectors
    others = (stride for loop, stride in access.strides.items() if loop is not lane)
    if any(types.remainder(dim, room) != 0 for dim in (access.offset, *others)):
        return False
    if isinstance(room, int) and isinstance(row, int):
        return room % point.width == 0 and (point.vector == 0 or -(-row // width) * width <= room)
    return (point.vector == 0 or row in frame.tile.brief) and point.width * buffer.dtype.itemsize <= LINE


def _in_brief_row(frame: Frame, access: Access, point: Point) -> int | None:
    """The first lane of an access that is a part of a row of few vectors, which has room behind it. None for others."""
    lane, buffer = frame.lane, access.buffer
    if lane is None or buffer.row is None or buffer.row not in frame.tile.brief or dict(access.strides) != {lane: 1}:
        return None
    first = types.remainder(access.offset, buffer.shape[-1])
    fits = isinstance(first, int) and 0 <= first < point.width and point.width * buffer.dtype.itemsize <= LINE
    whole = frame.index[lane, 0] == "0" and (point.vector == 0 or frame.tile.wide > 1)
    whole = whole and not (frame.tile.horizontal and frame.tile.wide > 1)
    return first if fits and isinstance(first, int) and whole else None


def _vectors(frame: Frame, access: Access, point: Point) -> int:
    """How many vectors a row has."""
    room = access.buffer.shape[-1]
    return room // point.width if isinstance(room, int) else frame.tile.wide


def _row(frame: Frame, access: Access, first: Dimension, point: Point) -> str:
    """The address of a vector of the row that an access is a part of."""
    address, behind = frame.address(access.buffer, access.offset - first), point.vector * point.width
    return f"{address} + {behind * access.buffer.dtype.itemsize}" if behind else address


def _zeros(dtype: DType, point: Point) -> str:
    return f"splat_{suffix(dtype, point.width)}({number(dtype.type(0))})"


def _slid(frame: Frame, text: str, way: str, count: int, other: str, zeros: str) -> str:
    """A vector with its lanes moved by `count`. Lanes of the other vector move in."""
    for some in (8, 4, 2, 1):
        if count & some:
            if other != zeros:
                other = frame.line("x", other)
            text = f"slide_{way}{some}({text}, {other})"
            count -= some
            if count and other != zeros:
                other = f"slide_{way}{some}({other}, {zeros})"
    return text


def _put_into_row(frame: Frame, access: Access, first: Dimension, text: str, point: Point) -> None:
    """Store a vector that is a part of a row as all of a vector of the row. If it is in a register, it stays there."""
    behind, lane = point.vector * point.width, frame.lane
    assert lane is not None
    if isinstance(first, int) and first > 0 and lane.size != 1:
        frame.memos[-1]["put", access.where(), point.vector] = text
        zeros = _zeros(access.buffer.dtype, point)
        before = frame.memos[-1].get(("put", access.where(), point.vector - 1), zeros)
        text = _slid(frame, text, "up", first, before, zeros)
    name, row = suffix(access.buffer.dtype, point.width), _row(frame, access, first, point)
    begin, number = (first - behind, frame.size(lane.size)) if isinstance(first, int) else (-behind, frame.size(first))
    masks = list[str]()
    if not _reaches_end(access, first, lane.size):
        masks.append(f"head_x{point.width}({number} + {begin if isinstance(first, int) else begin + 1})")
    if not isinstance(first, int):
        masks.append(f"~head_x{point.width}({number} + {begin})")
    elif begin > 0:
        masks.append(f"~head_x{point.width}({begin})")
    value = f"opaque(select({' & '.join(masks)}, {text}, load_{name}({row})))" if masks else text
    frame.scope.add(f"store({row}, {value})")


def _reaches_end(access: Access, first: Dimension, size: Dimension) -> bool:
    """Whether a part of a row reaches to the end of the row. Then the room behind the row is stored, too: what was in
    memory there may be numbers with which processors compute slowly."""
    row = access.buffer.row
    return row is not None and types.not_negative(first + size - row)


def is_paired(frame: Frame, access: Access, point: Point) -> bool:
    """Whether the lanes of a vector are every second element from an access on."""
    return point.width > 1 and frame.lane is not None and access.strides.get(frame.lane, 0) == 2


def halves(frame: Frame, first: Access, point: Point) -> list[tuple[str, str]]:
    """The addresses and masks ("": none) of the two vectors that hold the pairs of all lanes."""
    address, _ = frame.vector(first, point)
    mask = frame.mask(point)
    masks = ("", "") if mask is None else (f"paired_low({mask}, {mask})", f"paired_high({mask}, {mask})")
    return list(zip((address, f"{address} + {point.width * first.buffer.dtype.itemsize}"), masks, strict=True))


def load_half(frame: Frame, first: Access, point: Point, half: int) -> str:
    """The expression for one of these vectors."""
    address, mask = halves(frame, first, point)[half]
    name = suffix(first.buffer.dtype, point.width)
    return loaded(name, address, mask)


def write(frame: Frame, stores: Sequence[Store], texts: Sequence[str], point: Point) -> None:
    """Store a variable; or two, at neighbouring places."""
    first = stores[0].access
    if len(stores) == 2 and is_paired(frame, first, point):
        for (address, mask), function in zip(halves(frame, first, point), ("paired_low", "paired_high"), strict=True):
            frame.scope.add(stored(address, f"{function}({', '.join(texts)})", mask))
        return
    for store, text in zip(stores, texts, strict=True):
        _write(frame, store, text, point)


def _whole(store: Store, text: str, point: Point) -> str:
    """The value of a store that writes all lanes. If the value is chosen between a new one and what lies there already,
    LLVM would store only the lanes of the new one. A store of some lanes takes some processors ten times as long, and
    on all of them a load of the same vector then waits."""
    value, buffer = store.value, store.access.buffer
    chosen = point.width > 1 and isinstance(value, Apply) and value.op in (WHERE, MAXIMUM, MINIMUM)
    same = chosen and any(isinstance(part, Load) and part.access.buffer is buffer for part in value.operands)
    return f"opaque({text})" if same else text


def _write(frame: Frame, store: Store, text: str, point: Point) -> None:
    if (turned := frame.turned_vector(store.access, point)) is not None:
        frame.scope.add(f"store({turned}, {text})")
        return
    address, step = frame.vector(store.access, point)
    mask = frame.mask(point)
    if step not in (0, store.access.buffer.dtype.itemsize):
        frame.scope.add(f"store_strided({address}, {frame.size(step)}, {text}, {frame.every(point)})")
    elif 1 in frame.tile.brief:
        _put_into_row(
            frame, store.access, types.remainder(store.access.offset, store.access.buffer.shape[-1]), text, point
        )
    elif mask is None or _has_room(frame, store.access, point):
        frame.scope.add(f"store({address}, {_whole(store, text, point)})")
    elif (first := _in_brief_row(frame, store.access, point)) is not None:
        if point.vector < _vectors(frame, store.access, point):  # a row beside it may have more
            _put_into_row(frame, store.access, first, text, point)
    else:
        frame.scope.add(f"store_masked({address}, {text}, {mask})")
