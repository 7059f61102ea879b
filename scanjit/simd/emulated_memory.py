"""Memory with checked addresses, for running generated code in plain Python."""

from typing import Any

import numpy as np
import numpy.typing as npt

from scanjit.kinds import KINDS, Kind

from .emulated_races import Races

SPACING_BITS = 40  # each allocation starts in the middle of a terabyte: no run over either end meets a neighbour
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_WRITTEN = {1: 0x01, 2: 0x0101, 4: 0x01010101, 8: 0x0101010101010101}
_I64 = KINDS["i64"]


class MemoryFault(RuntimeError):
    """An access that compiled code must never make."""


class Allocation:
    """One buffer: its bytes, views of them by element size, and which bytes were written."""

    __slots__ = ("base", "bytes", "keep", "name", "size", "views", "writable", "written", "written_views")

    def __init__(self, base: int, data: npt.NDArray[np.uint8], name: str, writable: bool, tracked: bool, keep: Any):
        self.base = base
        self.bytes = data
        self.size = len(data)
        self.name = name
        self.writable = writable
        self.keep = keep
        self.views = {kind.name: self._view(data, kind.dtype) for kind in KINDS.values() if kind.moved == kind.name}
        self.written = bytearray(self.size) if tracked else None
        state = np.frombuffer(self.written or b"", np.uint8)
        self.written_views = {size: self._view(state, np.dtype(word)) for size, word in _WORDS.items()}

    def _view(self, data: npt.NDArray[np.uint8], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        return data[: len(data) // dtype.itemsize * dtype.itemsize].view(dtype)


class Allocations:
    """A table of allocations at made-up addresses; every access is checked.

    An access must lie inside one live allocation, be aligned to its element relative to the allocation's start, and
    write only what is writable. Reading bytes of an `allocate`d buffer that nothing has written is a fault as well, and
    so is a race, where `races` is set: whoever runs several threads tells it which one runs, and which meet.
    Lanes that are masked off are not checked.
    """

    def __init__(self) -> None:
        self.races: Races | None = None
        self._allocations: dict[int, Allocation] = {}
        self._raced: set[int] = set()
        self._next = 1

    def add(
        self,
        array: npt.NDArray[Any],
        writable: bool = True,
        name: str | None = None,
        raced: bool = False,
        tracked: bool = False,
    ) -> int:
        """Make an array's memory accessible.

        Parameters
        ----------
        array : numpy.ndarray
            Any array; the program sees and changes its elements in place.
        writable : bool
            Whether stores are allowed (never for a read-only array).
        name : str, optional
            What faults call it.
        raced : bool
            Whether threads may write it without having met: any of their values is right.
        tracked : bool
            Whether reading bytes that the program has not written is a fault.

        Returns
        -------
        int
            The address of its first element.
        """
        low, high = np.lib.array_utils.byte_bounds(array)
        start = array.__array_interface__["data"][0]
        if array.flags.c_contiguous:
            data = array.reshape(-1).view(np.uint8)
        else:
            data = _bytes_at(low, high - low)
        writable = writable and array.flags.writeable
        base = self._insert(data, name, writable, tracked, array)
        if raced:
            self._raced.add(base)
        return base + start - low

    def allocate(self, nbytes: int, name: str | None = None, tracked: bool = True) -> int:
        """A new buffer whose bytes count as uninitialised until written (unless `tracked` is False).

        Parameters
        ----------
        nbytes : int
            Its size.
        name : str, optional
            What faults call it.
        tracked : bool
            Whether reading bytes never written is a fault.

        Returns
        -------
        int
            Its address.
        """
        return self._insert(np.full(nbytes, 0xA5, np.uint8), name, True, tracked, None)

    def written(self, address: int) -> npt.NDArray[np.uint8]:
        """Which bytes of a tracked array the program has written: 1 or 0 for each."""
        return np.frombuffer(self._allocations[address >> SPACING_BITS].written or b"", np.uint8)

    def free(self, address: int) -> None:
        """End the life of the allocation that starts at `address`."""
        if self._allocations.get(address >> SPACING_BITS) is None:
            raise MemoryFault(f"free of address {address:#x}, which is in no allocation")
        del self._allocations[address >> SPACING_BITS]

    def _insert(self, data: npt.NDArray[np.uint8], name: str | None, writable: bool, tracked: bool, keep: Any) -> int:
        index = self._next
        self._next += 1
        base = (2 * index + 1) << (SPACING_BITS - 1)
        self._allocations[index] = Allocation(base, data, name or f"allocation {index}", writable, tracked, keep)
        return base

    # ---- checks ---------------------------------------------------------------------------------------------------

    def _fault(self, problem: str, access: str, kind: Kind, lanes: int, address: int) -> MemoryFault:
        found = self._allocations.get(address >> SPACING_BITS)
        if found is None:
            return MemoryFault(f"{access} of {kind.name}x{lanes} at {address:#x}: {problem}")
        offset = address - found.base
        place = f"byte {offset} of {found.name} ({found.size} bytes)"
        return MemoryFault(f"{access} of {kind.name}x{lanes} at {place}: {problem}")

    def _range(
        self, access: str, kind: Kind, lanes: int, address: int, first: int, last: int
    ) -> tuple[Allocation, int]:
        """The allocation that holds all bytes from lane `first` to lane `last`, and the index of lane 0 in it."""
        size = kind.size
        low = address + first * size
        found = self._allocations.get(low >> SPACING_BITS)
        if found is None:
            raise self._fault("no allocation is there", access, kind, lanes, low)
        offset = address - found.base
        if low < found.base or offset + (last + 1) * size > found.size:
            raise self._fault(f"it ends at byte {offset + (last + 1) * size}", access, kind, lanes, low)
        if offset % size:
            raise self._fault(f"not aligned to {size} bytes", access, kind, lanes, low)
        if access == "store" and not found.writable:
            raise self._fault("the buffer is read-only", access, kind, lanes, low)
        return found, offset // size

    def _check_written(self, found: Allocation, state: bytearray, kind: Kind, lanes: int, where: Any) -> None:
        size = kind.size
        if isinstance(where, slice):
            unwritten = state.find(0, where.start * size, where.stop * size) >= 0
        else:
            unwritten = (found.written_views[size][where] != _WRITTEN[size]).any()
        if unwritten:
            position = where.start if isinstance(where, slice) else int(where[0])
            address = found.base + position * kind.size
            raise self._fault("it reads bytes that nothing has written", "load", kind, lanes, address)

    def _check_met(self, races: Races, access: str, found: Allocation, kind: Kind, lanes: int, where: Any) -> None:
        if not found.writable or found.base in self._raced:
            return
        size = kind.size
        if isinstance(where, slice):
            places: Any = slice(where.start * size, where.stop * size)
        else:
            places = (where[:, None] * size + np.arange(size)).reshape(-1)
        other = (races.read if access == "load" else races.write)(found.base, found.size, places)
        if other is not None:
            problem = f"thread {races.running} has not met thread {other}, which wrote this"
            problem += "" if access == "load" else " or read it"
            position = where.start if isinstance(where, slice) else int(where[0])
            raise self._fault(problem, access, kind, lanes, found.base + position * size)

    def _get(self, found: Allocation, kind: Kind, lanes: int, where: Any) -> npt.NDArray[Any]:
        if found.written is not None:
            self._check_written(found, found.written, kind, lanes, where)
        if self.races is not None:
            self._check_met(self.races, "load", found, kind, lanes, where)
        return found.views[kind.moved][where]

    def _set(self, found: Allocation, kind: Kind, lanes: int, where: Any, values: npt.NDArray[Any]) -> None:
        if self.races is not None:
            self._check_met(self.races, "store", found, kind, lanes, where)
        found.views[kind.moved][where] = values
        if found.written is not None:
            size = kind.size
            if isinstance(where, slice):
                found.written[where.start * size : where.stop * size] = b"\1" * (lanes * size)
            else:
                found.written_views[size][where] = _WRITTEN[size]

    # ---- accesses -------------------------------------------------------------------------------------------------

    def load(self, kind: Kind, lanes: int, address: int) -> npt.NDArray[Any]:
        """Consecutive elements, as an array of the caller's own."""
        found, index = self._range("load", kind, lanes, address, 0, lanes - 1)
        return self._get(found, kind, lanes, slice(index, index + lanes)).astype(kind.dtype)

    def store(self, kind: Kind, address: int, values: npt.NDArray[Any]) -> None:
        """Consecutive elements."""
        lanes = len(values)
        found, index = self._range("store", kind, lanes, address, 0, lanes - 1)
        self._set(found, kind, lanes, slice(index, index + lanes), values)

    def load_masked(self, kind: Kind, lanes: int, address: int, mask: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Consecutive elements where the mask is set, else 0."""
        active = mask.nonzero()[0]
        values = np.zeros(lanes, kind.dtype)
        if len(active):
            found, index = self._range("load", kind, lanes, address, int(active[0]), int(active[-1]))
            values[active] = self._get(found, kind, lanes, active + index)
        return values

    def store_masked(self, kind: Kind, address: int, values: npt.NDArray[Any], mask: npt.NDArray[Any]) -> None:
        """Consecutive elements where the mask is set."""
        active = mask.nonzero()[0]
        if len(active):
            found, index = self._range("store", kind, len(values), address, int(active[0]), int(active[-1]))
            self._set(found, kind, len(values), active + index, values[active])

    def _scattered(
        self, access: str, kind: Kind, address: int, offsets: npt.NDArray[Any], active: npt.NDArray[Any]
    ) -> tuple[Allocation, npt.NDArray[Any]]:
        places = offsets[active] + address
        lanes = len(offsets)
        low = int(places.min())
        found, index = self._range(access, kind, lanes, low, 0, 0)
        positions, remainders = np.divmod(places - found.base, kind.size)
        if remainders.any():
            wrong = int(places[remainders.argmax()])
            raise self._fault(f"not aligned to {kind.size} bytes", access, kind, lanes, wrong)
        self._range(access, kind, lanes, low, 0, int(positions.max()) - index)
        return found, positions

    def gather(
        self, kind: Kind, lanes: int, address: int, offsets: npt.NDArray[Any], mask: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        """Elements at ``address + offsets`` where the mask is set, else 0."""
        active = mask.nonzero()[0]
        values = np.zeros(lanes, kind.dtype)
        if len(active):
            found, where = self._scattered("load", kind, address, offsets, active)
            values[active] = self._get(found, kind, lanes, where)
        return values

    def scatter(
        self, kind: Kind, address: int, offsets: npt.NDArray[Any], values: npt.NDArray[Any], mask: npt.NDArray[Any]
    ) -> None:
        """Elements to ``address + offsets``; of several lanes that write one place the last wins."""
        active = mask.nonzero()[0]
        if len(active):
            found, where = self._scattered("store", kind, address, offsets, active)
            self._set(found, kind, len(values), where, values[active])

    def load_i64(self, address: int) -> int:
        """One 64-bit integer."""
        return int(self.load(_I64, 1, address)[0])

    def peek_i64(self, address: int) -> int:
        """The same; another thread may write it meanwhile."""
        races, self.races = self.races, None
        try:
            return self.load_i64(address)
        finally:
            self.races = races

    def store_i64(self, address: int, value: int) -> None:
        """One 64-bit integer. That several threads store the same one (all count the steps of a loop) is no race."""
        found, index = self._range("store", _I64, 1, address, 0, 0)
        if self.races is None or found.views[_I64.name][index] != value:
            self._set(found, _I64, 1, slice(index, index + 1), np.array([value], np.int64))


def _bytes_at(address: int, nbytes: int) -> npt.NDArray[np.uint8]:
    """The bytes of a strided array, gaps included."""
    import ctypes

    if nbytes == 0:
        return np.zeros(0, np.uint8)
    return np.frombuffer(memoryview((ctypes.c_ubyte * nbytes).from_address(address)), np.uint8)
