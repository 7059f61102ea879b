"""Checks of `X` and of weights, and their conversion to one form: a list of arrays (steps, features)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import scanjit as sj


def read_sequences(X: Any, dtype: Any, owner: str, features: int | None = None) -> list[np.ndarray]:
    """The sequences of `X`, each of shape (steps, features).

    Parameters
    ----------
    X : array or list of arrays
        See `lasagne_like.estimators`.
    dtype : a dtype or its name
        The dtype of the result.
    owner : str
        The name of the estimator, for errors.
    features : int, optional
        The number of features that `X` must have.

    Examples
    --------
    >>> from lasagne_like.estimators.inputs import read_sequences
    >>> [s.shape for s in read_sequences([[1, 2, 3], [4]], "float32", "RecurrentClassifier")]
    [(3, 1), (1, 1)]
    """
    if hasattr(X, "tocsr"):
        raise TypeError(f"{owner} cannot read sparse data: pass X.toarray()")
    if not hasattr(X, "__array__") and not np.iterable(X):
        raise TypeError(f"X must be an array or a list of arrays, got {X!r}")
    whole = None
    if hasattr(X, "__array__"):
        sj.check_unmasked(X, "X")
        whole = np.asarray(X)
    if whole is not None and whole.dtype.kind != "O":
        found = _of_array(whole, dtype)
    else:
        items = list(X if whole is None else whole)
        found = [_of_item(item, i, dtype) for i, item in enumerate(items)]
    if not found:
        raise ValueError("X has 0 sample(s): at least one sequence is required")
    wanted = found[0].shape[1] if features is None else features
    for i, sequence in enumerate(found):
        if sequence.shape[1] != found[0].shape[1]:
            raise ValueError(
                f"all sequences must have the same features, but sequence 0 has {found[0].shape[1]}, sequence {i} "
                f"{sequence.shape[1]}"
            )
        if not len(sequence):
            raise ValueError(f"sequence {i} of X has no steps: leave it out")
        if not sequence.size:
            raise ValueError(f"the steps of sequence {i} of X have no features: {sequence.shape}")
        _check_finite(sequence, i)
    if found[0].shape[1] != wanted:
        raise ValueError(f"X has {found[0].shape[1]} features, but {owner} is expecting {wanted} features as input")
    return found


def _of_array(X: np.ndarray, dtype: Any) -> list[np.ndarray]:
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: X is {X.dtype}")
    if X.ndim not in (2, 3):
        raise ValueError(
            f"X must have the axes (samples, steps, features) or (samples, steps), got {X.ndim} axes: {X.shape}. "
            "Reshape your data: X[None] is one sequence, X[:, None] are sequences of one step"
        )
    if len(X) and not X[0].size:
        raise ValueError(f"X has 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    return list(_numbers(X if X.ndim == 3 else X[:, :, None], "X", dtype))


def _of_item(item: Any, i: int, dtype: Any) -> np.ndarray:
    sj.check_unmasked(item, f"sequence {i} of X")
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise ValueError(f"sequence {i} of X is no array: its steps differ in their number of features") from error
    if array.ndim not in (1, 2):
        hint = ". Reshape your data: [X] is one sequence" if array.ndim == 0 else ""
        raise ValueError(f"sequence {i} of X must have the axes (steps, features) or (steps,), got {array.shape}{hint}")
    return _numbers(array if array.ndim == 2 else array[:, None], f"sequence {i} of X", dtype)


def _numbers(array: np.ndarray, what: str, dtype: Any) -> np.ndarray:
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {what} is {array.dtype}")
    if array.dtype.kind in "mM":
        raise ValueError(f"{what} must hold numbers, got {array.dtype}: subtract a date and divide by a duration")
    try:
        with np.errstate(over="ignore"):
            return array.astype(dtype)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{what} must hold numbers, but an argument must be a string or a number: {error}") from error


def _check_finite(sequence: np.ndarray, i: int) -> None:
    bad = ~np.isfinite(sequence)
    if bad.any():
        step, feature = np.argwhere(bad)[0]
        kind = "NaN" if np.isnan(sequence[step, feature]) else f"infinity or a value too large for {sequence.dtype}"
        raise ValueError(f"Input X contains {kind}: sequence {i}, step {step}, feature {feature}")


def check_counts(sequences: Sequence[Any], y: Any) -> None:
    """Raise an error if there is not one target for each sequence.

    Parameters
    ----------
    sequences : sequence
    y : array or sequence

    Examples
    --------
    >>> from lasagne_like.estimators.inputs import check_counts
    >>> check_counts([[1.0], [2.0, 3.0]], ["a", "b"])
    """
    sj.check_unmasked(y, "y")
    count = len(y) if hasattr(y, "__len__") else np.asarray(y).size
    if count != len(sequences):
        raise ValueError(f"inconsistent numbers of samples: X has {len(sequences)} sequences, y has {count} targets")


def read_weights(sample_weight: Any, lengths: Sequence[int], by_step: bool) -> list[np.ndarray]:
    """The weight of each sequence; with `by_step` those of its steps.

    Parameters
    ----------
    sample_weight : None, array, or list of arrays
        A number a sequence; with `by_step` also a number a step.
    lengths : sequence of ints
        The numbers of steps.
    by_step : bool

    Examples
    --------
    >>> from lasagne_like.estimators.inputs import read_weights
    >>> read_weights([1, 2], [3, 1], by_step=True)
    [array([1., 1., 1.]), array([2.])]
    """
    sj.check_unmasked(sample_weight, "sample_weight")
    given = np.ones(len(lengths)) if sample_weight is None else sample_weight
    if not isinstance(given, Sequence):
        given = np.asarray(given)
        given = given if given.ndim else np.full(len(lengths), given)
    if len(given) != len(lengths):
        raise ValueError(f"sample_weight has {len(given)} entries, but there are {len(lengths)} sequences")
    found = []
    for i, (own, length) in enumerate(zip(given, lengths, strict=True)):
        weight = np.asarray(own, "float64")
        if weight.shape != () and not (by_step and weight.shape == (length,)):
            steps = f" or one for each of its {length} steps" if by_step else ""
            raise ValueError(f"sample_weight {i} must be a number{steps}, got an array of shape {weight.shape}")
        if not np.isfinite(weight).all() or (weight < 0).any():
            raise ValueError(f"sample_weight {i} must not be negative or NaN, got {own}")
        found.append(np.broadcast_to(weight, (length,)) if by_step else weight)
    if not any(weight.any() for weight in found):
        raise ValueError("all of sample_weight is zero: there is nothing to learn from")
    return found
