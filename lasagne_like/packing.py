"""Short sequences one after the other in the rows of a batch, as CNTK packs them, and back.

A batch of sequences of different lengths is padded to the longest one. If the lengths differ much, most of the batch is
padding. `Packing` puts several sequences into one row, so that the cost of a pass is proportional to the sum of the
lengths. A recurrence over the rows must begin anew where a sequence starts: use `PastValueLayer(starts=...)` or
`cells.ResetWrapper`.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lasagne_like.checks import checked_count, is_count

__all__ = ["Packing"]


class Packing:
    """The places of sequences of given lengths in rows of one length.

    The longest sequences are placed first. Each goes into the row with the least space that is still enough.

    Parameters
    ----------
    lengths : integers
        The lengths of the sequences, each at least 1.
    row_length : int, optional
        By default the length of the longest.

    Attributes
    ----------
    shape : (rows, row_length)
    places : for each sequence its row, and the step of its first element.
    lengths : the lengths of the sequences, a list.

    Raises
    ------
    ValueError
        If there are no sequences, one is empty, or one is longer than a row.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.packing import Packing
    >>> packing = Packing([2, 5, 3, 1])
    >>> packing.shape, packing.places
    ((3, 5), [(1, 3), (0, 0), (1, 0), (2, 0)])
    >>> packing.pack([np.array([1, 1]), np.full(5, 2), np.full(3, 3), np.array([4])])
    array([[2, 2, 2, 2, 2],
           [3, 3, 3, 1, 1],
           [4, 0, 0, 0, 0]])
    >>> packing.starts.astype(int)
    array([[1, 0, 0, 0, 0],
           [1, 0, 0, 1, 0],
           [1, 1, 1, 1, 1]])
    """

    def __init__(self, lengths: Iterable[int], row_length: int | None = None) -> None:
        given = list(lengths)
        if not given or not all(map(is_count, given)):
            raise ValueError(f"the lengths of sequences must be whole numbers of 1 or more, got {given}")
        if row_length is not None:
            checked_count(row_length, "row_length")
        self.lengths = [int(length) for length in given]
        longest = max(self.lengths)
        self.row_length = longest if row_length is None else row_length
        if longest > self.row_length:
            raise ValueError(
                f"sequence {self.lengths.index(longest)} has {longest} steps, but a row has {self.row_length}: give a "
                "larger row_length"
            )
        self.places = self._placed()
        self.shape = (1 + max(row for row, _ in self.places), self.row_length)

    def _placed(self) -> list[tuple[int, int]]:
        places: dict[int, tuple[int, int]] = {}
        free: list[tuple[int, int]] = []  # the free space of each row, the smallest first
        rows = 0
        for i in sorted(range(len(self.lengths)), key=lambda i: -self.lengths[i]):
            length = self.lengths[i]
            at = bisect_left(free, (length, -1))
            if at < len(free):
                left, row = free.pop(at)
            else:
                left, row, rows = self.row_length, rows, rows + 1
            places[i] = (row, self.row_length - left)
            if left > length:
                insort(free, (left - length, row))
        return [places[i] for i in range(len(self.lengths))]

    def __repr__(self) -> str:
        return f"<Packing of {len(self.lengths)} sequences in {self.shape[0]} rows of {self.row_length}>"

    @property
    def mask(self) -> np.ndarray:
        """Which steps belong to a sequence: (rows, row_length) of bool."""
        found = np.zeros(self.shape, bool)
        for (row, first), length in zip(self.places, self.lengths, strict=True):
            found[row, first : first + length] = True
        return found

    @property
    def starts(self) -> np.ndarray:
        """Where a sequence starts, for a recurrence that runs forwards: (rows, row_length) of bool. Each step of
        padding counts as a start, so that no state grows there."""
        found = ~self.mask
        found[tuple(np.transpose(self.places))] = True
        return found

    @property
    def ends(self) -> np.ndarray:
        """Where a sequence ends: there a recurrence that runs backwards starts. Each step of padding counts as an
        end."""
        found = ~self.mask
        rows, firsts = np.transpose(self.places)
        found[rows, firsts + self.lengths - 1] = True
        return found

    def pack(self, sequences: Sequence[Any]) -> np.ndarray:
        """The sequences in rows, with zeros for padding.

        Parameters
        ----------
        sequences : arrays of shape (length, ...)
            In the order of the lengths. They may differ in their lengths only.

        Returns
        -------
        array of shape (rows, row_length, ...)
        """
        arrays = [np.asarray(sequence) for sequence in sequences]
        if [array.shape[:1] for array in arrays] != [(length,) for length in self.lengths]:
            raise ValueError(
                f"the sequences must have the lengths {self.lengths}, got arrays of shapes {[a.shape for a in arrays]}"
            )
        if len({array.shape[1:] for array in arrays}) > 1:
            raise ValueError(f"the sequences differ in more than their lengths: {[a.shape for a in arrays]}")
        packed = np.zeros((*self.shape, *arrays[0].shape[1:]), np.result_type(*arrays))
        for (row, first), array in zip(self.places, arrays, strict=True):
            packed[row, first : first + len(array)] = array
        return packed

    def unpack(self, packed: Any) -> list[np.ndarray]:
        """The sequences in rows, in the order of the lengths: the inverse of `pack`.

        Examples
        --------
        >>> import numpy as np
        >>> from lasagne_like.packing import Packing
        >>> Packing([1, 2]).unpack(np.array([[5, 6], [7, 0]]))
        [array([7]), array([5, 6])]
        """
        array = self._checked(packed)
        return [array[row, first : first + n] for (row, first), n in zip(self.places, self.lengths, strict=True)]

    def last(self, packed: Any) -> np.ndarray:
        """The last element of each sequence: (sequences, ...).

        Examples
        --------
        >>> import numpy as np
        >>> from lasagne_like.packing import Packing
        >>> Packing([1, 2]).last(np.array([[5, 6], [7, 0]]))
        array([7, 6])
        """
        rows, firsts = np.transpose(self.places)
        return np.asarray(self._checked(packed)[rows, firsts + self.lengths - 1])

    def _checked(self, packed: Any) -> np.ndarray:
        array = np.asarray(packed)
        if array.shape[:2] != self.shape:
            raise ValueError(f"{self!r} got an array of shape {array.shape}, should be {(*self.shape, '...')}")
        return array
