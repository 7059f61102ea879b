"""Integers that are places along an axis: rows of a matrix, classes."""

from typing import Any

import scanjit as sj


def not_from_the_end(index: sj.Node, count: Any) -> sj.Node:
    """Integers to index an axis of `count` entries with. A negative one does not count from the end: it is lowered by
    `count`, so that it is out of bounds.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.places import not_from_the_end
    >>> x, i = sj.vector("x"), sj.lscalar("i")
    >>> f = sj.function([x, i], x[not_from_the_end(i, x.shape[0])], mode="reference")
    >>> f([1.0, 2.0], 1)
    array(2.)
    >>> f([1.0, 2.0], -1)
    Traceback (most recent call last):
        ...
    scanjit.errors.OutOfBoundsError: index -1 is out of bounds for axis 0 with size 2
      ...
    """
    if not index.type.kind.signed:
        return index
    index = sj.cast(index, "int64")  # a narrow dtype may not have the lowered number
    return sj.where(index < 0, index - count, index)


def rows_of(W: Any, index: sj.Node, owner: Any) -> sj.Node:
    """The row of a matrix for each integer. Integers that are no rows are an error, also negative ones.

    Parameters
    ----------
    W : expression
    index : sj.Node
    owner : object
        What reads the integers, for the error.

    Raises
    ------
    TypeError
        If they are not integers.

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.places import rows_of
    >>> rows = rows_of(sj.constant([[1.0], [2.0]]), sj.constant([1, 0, 1]), "this layer")
    >>> sj.function([], rows, mode="reference")().ravel()
    array([2., 1., 2.])
    """
    if not index.type.kind.integral:
        raise TypeError(
            f"{owner} takes integers, got {index.dtype}: give its InputLayer a symbol of integers, such as "
            f"InputLayer(shape, sj.tensor(shape, 'int32'))"
        )
    return sj.take(W, not_from_the_end(index, W.shape[0]), axis=0)


def among_largest(x: Any, values: Any, places: Any, k: Any) -> Any:
    """Whether the entries at some places of the last axis are among its `k` largest; never for a place that there is
    not. Of equal entries, the first one counts as the largest. `x` is the module that computes it: `numpy` or
    `scanjit`."""
    places, count = places[..., None], values.shape[-1]
    there = (places >= 0) & (places < count)
    places = x.where(there, places, 0)
    own = x.take_along_axis(values, places, axis=-1)
    before = (values > own) | ((values == own) & (x.arange(count) < places))
    return (x.sum(before, axis=-1) < k) & there[..., 0]
