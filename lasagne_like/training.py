"""Tools for your own training loops: minibatches of ragged sequences, early stopping, progress bars, checkpoints.

Examples
--------
A loop that can be killed at any time, and goes on where it was:

>>> import numpy as np, scanjit as sj, lasagne_like as lasagne
>>> from lasagne_like.training import Checkpoint, EarlyStopping, minibatches, progress
>>> rng = np.random.default_rng(1)
>>> sequences = [rng.normal(size=(length, 2)) for length in (5, 3, 8, 4)]
>>> sums = np.array([[sequence.sum()] for sequence in sequences])
>>> l_in, l_mask = lasagne.layers.InputLayer((None, None, 2)), lasagne.layers.InputLayer((None, None))
>>> network = lasagne.layers.GRULayer(l_in, 4, mask_input=l_mask, only_return_final=True)
>>> network = lasagne.layers.DenseLayer(network, 1, nonlinearity=None)
>>> target = sj.matrix("target")
>>> loss = lasagne.objectives.squared_error(lasagne.layers.get_output(network), target).mean()
>>> updates = lasagne.updates.adam(loss, lasagne.layers.get_all_params(network, trainable=True), 0.01)
>>> train = sj.function([l_in.input_var, l_mask.input_var, target], loss, updates=updates, mode="reference")

>>> import os, tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> checkpoint = Checkpoint(os.path.join(folder.name, "run.npz"), train, rng=rng)
>>> stopping = EarlyStopping(patience=3)
>>> start = checkpoint.load()["epoch"] if checkpoint.path.exists() else 0
>>> for epoch in progress(range(start, 5)):
...     losses = [train(x, mask, t) for x, mask, t in minibatches(sequences, sums, batch_size=2, rng=rng)]
...     checkpoint.save(epoch=epoch + 1)
...     if stopping(np.mean(losses)):
...         break
>>> checkpoint.load()["epoch"]
5
>>> folder.cleanup()
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like import layers, random
from lasagne_like.checks import checked_count
from lasagne_like.distributed import DataParallel
from lasagne_like.fitting import fit
from lasagne_like.history import History
from lasagne_like.shapes import fits, known_sizes
from lasagne_like.stopping import EarlyStopping

__all__ = ["Checkpoint", "EarlyStopping", "History", "fit", "minibatches", "progress", "variables_of"]

_POOL = 20
"""The number of batches within which sequences are sorted by length. So there is little padding, and batches still
vary."""


def _unmasked(value: Any, label: str) -> np.ndarray:
    sj.check_unmasked(value, label)
    return np.asarray(value)


def minibatches(
    sequences: Sequence[Any],
    targets: Sequence[Any] | None = None,
    batch_size: int = 32,
    *,
    shuffle: bool = True,
    rng: Any = None,
    bucket: bool = True,
    length: int | None = None,
) -> Iterator[tuple[np.ndarray, ...]]:
    """Go through sequences of different lengths once, in batches that are padded with zeros at the end.

    Parameters
    ----------
    sequences : sequence of arrays
        Of shape (length, features...). The lengths may differ, the rest may not.
    targets : sequence of arrays, optional
        One for each sequence: of its length, to be padded like it; or of one shape for all.
    batch_size : int
        The last batch may be smaller.
    shuffle : bool
        Go in a random order. The whole order is drawn when the function is called.
    rng : numpy.random.Generator or RandomState, optional
        By default that of `lasagne_like.random`.
    bucket : bool
        Put sequences of about the same length into a batch, which saves padding.
    length : int, optional
        The number of steps to which all batches are padded, for layers of a fixed length. By default the length of the
        longest sequence of the batch.

    Yields
    ------
    tuple of arrays
        `(inputs, mask)`, or `(inputs, mask, targets)`: inputs (batch, time, features...) and the mask (batch, time), of
        ones and then zeros, whose dtype is `scanjit.config.floatX`.

    Examples
    --------
    >>> import numpy as np
    >>> from lasagne_like.training import minibatches
    >>> for x, mask in minibatches([[1, 2, 3], [4], [5, 6]], batch_size=2, shuffle=False):
    ...     print(x.tolist(), mask.tolist())
    [[4, 0], [5, 6]] [[1.0, 0.0], [1.0, 1.0]]
    [[1, 2, 3]] [[1.0, 1.0, 1.0]]
    """
    checked_count(batch_size, "batch_size")
    if not np.iterable(sequences):
        raise TypeError(f"sequences must be a list of arrays, got {sequences!r}")
    if rng is not None and not hasattr(rng, "permutation"):
        raise TypeError(f"rng must be a generator of NumPy, such as np.random.default_rng(0), got {rng!r}")
    given = [_unmasked(sequence, f"sequence {i}") for i, sequence in enumerate(sequences)]
    _check_features(given, "sequences")
    if length is not None:
        checked_count(length, "length")
    lengths = np.array([len(sequence) for sequence in given], "int64")
    if length is not None and len(lengths) and length < lengths.max():
        i = int(np.argmax(lengths))
        raise ValueError(f"cannot pad to length {length}: sequence {i} has {lengths[i]} steps")
    answers, ragged = (None, False) if targets is None else _answers(targets, given)
    generator = random.get_rng() if rng is None else rng
    order = generator.permutation(len(given)) if shuffle else np.arange(len(given))
    if bucket:
        pools = [order[i : i + _POOL * batch_size] for i in range(0, len(order), _POOL * batch_size)]
        order = np.concatenate([pool[np.argsort(lengths[pool], kind="stable")] for pool in pools]) if pools else order
    batches = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    if shuffle and bucket:
        batches = [batches[i] for i in generator.permutation(len(batches))]

    def batch(chosen: np.ndarray) -> tuple[np.ndarray, ...]:
        x = _padded([given[i] for i in chosen], length)
        mask = (np.arange(x.shape[1]) < lengths[chosen][:, None]).astype(sj.config.floatX)
        if answers is None:
            return x, mask
        picked = [answers[i] for i in chosen]
        return x, mask, _padded(picked, length) if ragged else np.stack(picked)

    return map(batch, batches)


def _answers(targets: Any, sequences: Sequence[np.ndarray]) -> tuple[list[np.ndarray], bool]:
    """The targets as arrays, and whether each has the length of its sequence."""
    if isinstance(targets, Mapping) or not np.iterable(targets):
        raise TypeError(f"targets must be a list with one for each sequence, got {targets!r:.80}")
    answers = [_unmasked(target, f"target {i}") for i, target in enumerate(targets)]
    if len(answers) != len(sequences):
        raise ValueError(f"got {len(sequences)} sequences but {len(answers)} targets")
    other = [i for i, t in enumerate(answers) if not t.ndim or len(t) != len(sequences[i])]
    if not other:
        _check_features(answers, "targets")
    elif len({target.shape for target in answers}) > 1:
        raise ValueError(
            f"targets must have one shape, or each the length of its sequence: target {other[0]} has the shape "
            f"{answers[other[0]].shape}, its sequence {sequences[other[0]].shape}"
        )
    return answers, not other


def _check_features(arrays: Sequence[np.ndarray], what: str) -> None:
    for i, array in enumerate(arrays):
        if not array.ndim:
            raise ValueError(f"{what} must have at least one axis, time, but number {i} is {array!r}")
        if array.shape[1:] != arrays[0].shape[1:]:
            raise ValueError(
                f"{what} must differ in length only, but number 0 has the shape {arrays[0].shape}, number {i} "
                f"{array.shape}"
            )


def _padded(arrays: Sequence[np.ndarray], length: int | None) -> np.ndarray:
    steps = max(len(array) for array in arrays) if length is None else length
    result = np.zeros((len(arrays), steps, *arrays[0].shape[1:]), np.result_type(*arrays))
    for row, array in zip(result, arrays, strict=True):
        row[: len(array)] = array
    return result


def progress(
    iterable: Iterable[Any], describe: str | Callable[[], str] | None = None, *, show: bool | None = None
) -> Iterator[Any]:
    """Go through an iterable, with a progress bar where there is a terminal or a notebook to show it in.

    Parameters
    ----------
    iterable : iterable
    describe : str, or function without arguments that returns one, optional
        The text before the bar. A function is called after each item: `lambda: f"loss {loss:.3f}"`.
    show : bool, optional
        False: no bar. True: a bar even where the output is no terminal; an error if tqdm, which draws it, is missing.
        By default: a bar if there are tqdm, and a terminal or a notebook.

    Raises
    ------
    ImportError
        With `show=True`, if tqdm is not installed.

    Examples
    --------
    >>> from lasagne_like.training import progress
    >>> [2 * i for i in progress(range(3), show=False)]
    [0, 2, 4]
    """
    if show is False:
        return iter(iterable)
    try:
        tqdm = importlib.import_module("tqdm.auto").tqdm  # in a notebook, one of its widgets
    except ImportError as error:
        if show:
            raise ImportError("progress bars need tqdm: pip install 'scanjit[progress]'") from error
        return iter(iterable)
    hidden = None if show is None and not _in_notebook() else False  # None: where the output is no terminal
    bar = tqdm(iterable, desc=describe if isinstance(describe, str) else None, disable=hidden)
    return _described(bar, describe) if callable(describe) else iter(bar)


def _in_notebook() -> bool:
    """Whether this runs in a Jupyter notebook. Its output is no terminal, but it shows bars."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _described(bar: Any, describe: Callable[[], str]) -> Iterator[Any]:
    for item in bar:
        yield item
        bar.set_description_str(describe(), refresh=False)


class Checkpoint:
    """Saves the state of a training run in one file. A run that loads it goes on bit for bit as if it had not stopped.

    Writing is atomic: if the process is killed, the file is the old one or the new one. Beside it there may be an
    incomplete file whose name begins with a dot; nobody reads it.

    Parameters
    ----------
    path : str or path
        The file, as `numpy.load` reads it.
    *things : compiled functions, `DataParallel`, layers, streams of random numbers, shared variables, or updates
        The shared variables of these things are saved. Of a compiled function: all that it reads or updates, such as
        parameters, the memory of update rules, and the states of random streams and layers. Of a layer: the parameters
        of all layers below it. Of a stream: its state. Of updates: the variables that they update. Usually the training
        function alone is enough.
    rng : numpy.random.Generator, RandomState or the module numpy.random, optional
        Its state is saved, too.

    Attributes
    ----------
    path : the path of the file, a `pathlib.Path`.
    variables : the shared variables, in the order in which they were made. The program that loads a file has to make
        as many, with the same names, dtypes and ranks, in the same order.

    Notes
    -----
    A generator is saved as it is at that moment. `minibatches` draws the order of a whole pass when it is called, so
    save between two passes.

    Examples
    --------
    >>> import os, tempfile
    >>> import scanjit as sj
    >>> from lasagne_like.training import Checkpoint
    >>> w = sj.shared([1.0, 2.0], "w")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(os.path.join(folder, "run.npz"), w)
    ...     checkpoint.save(epoch=3)
    ...     w.set_value([0.0, 0.0])
    ...     checkpoint.load(), w.get_value()
    ({'epoch': 3}, array([1., 2.]))
    """

    def __init__(self, path: str | os.PathLike[str], *things: Any, rng: Any = None) -> None:
        self.path, self.rng = Path(path), rng
        self.variables = variables_of(things)
        if rng is not None:
            _state_of(rng)  # raise an error now, not after hours of training

    def save(self, **counters: Any) -> None:
        """Write the file.

        Parameters
        ----------
        **counters
            Further values that `load` shall return: numbers, strings, lists and dictionaries of them.
        """
        arrays = {str(i): variable.get_value(borrow=True) for i, variable in enumerate(self.variables)}
        about = {
            "variables": [variable.name for variable in self.variables],
            "rng": None if self.rng is None else _state_of(self.rng),
            "counters": counters,
        }
        text = json.dumps(about, default=_plain)
        with sj.replace_file(self.path) as file:
            np.savez(file, about=np.array(text), allow_pickle=False, **arrays)

    def load(self) -> dict[str, Any]:
        """Set all values to those in the file. After an error no value has changed.

        Returns
        -------
        dict
            The counters that `save` was given.

        Raises
        ------
        FileNotFoundError
            If there is no file; `checkpoint.path.exists()` tells.
        ValueError
            If its variables are not those of this checkpoint.
        """
        try:
            with self.path.open("rb") as stream:
                if not zipfile.is_zipfile(stream):
                    raise zipfile.BadZipFile("it is no .npz file, or its end is missing")
                stream.seek(0)
                with np.load(stream, allow_pickle=False) as file:
                    about = json.loads(str(file["about"])) if "about" in file else None
                    values = [file[str(i)] for i in range(len(about["variables"]))] if about else []
        except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"{self.path} is no whole checkpoint: it was cut or changed ({error})") from error
        if about is None:
            raise ValueError(f"{self.path} was not written by Checkpoint.save")
        self._check(about, values)
        sj.set_values(dict(zip(self.variables, values, strict=True)))
        if self.rng is not None:
            _set_state(self.rng, about["rng"])
        return dict(about["counters"])

    def _check(self, about: Mapping[str, Any], values: Sequence[np.ndarray]) -> None:
        if len(values) != len(self.variables):
            raise ValueError(
                f"{self.path} holds {len(values)} variables, not the {len(self.variables)} of this checkpoint:\n"
                f"  {_listed(about['variables'])}\n  {_listed(variable.name for variable in self.variables)}"
            )
        for i, (variable, name, value) in enumerate(zip(self.variables, about["variables"], values, strict=True)):
            fitting = fits(known_sizes(variable.type.shape), value.shape)
            if variable.name != name or variable.dtype != value.dtype or not fitting:
                raise ValueError(
                    f"variable {i} of {self.path} is {name}, {value.dtype} of shape {value.shape}; it does not fit "
                    f"{variable!r}"
                )
        state, own = about["rng"], None if self.rng is None else _state_of(self.rng)
        kinds = [None if s is None else s["bit_generator"] for s in (state, own)]
        if own is not None and kinds[0] != kinds[1]:
            raise ValueError(f"{self.path} holds the state of the generator {kinds[0]}, not of {kinds[1]}")


def _listed(names: Iterable[str | None]) -> str:
    return ", ".join(name or "unnamed" for name in names)


def variables_of(things: Iterable[Any]) -> list[sj.SharedVariable]:
    """The shared variables of compiled functions, layers, streams and updates, in the order in which they were made.

    Parameters
    ----------
    things : iterable
        As for `Checkpoint`.

    Examples
    --------
    >>> import lasagne_like as lasagne
    >>> from lasagne_like.training import variables_of
    >>> variables_of([lasagne.layers.DenseLayer((None, 3), 2)])
    [<shared W: float64(3, 2)>, <shared b: float64(2)>]
    """
    found = {variable.serial: variable for thing in things for variable in _variables_of(thing)}
    return [found[serial] for serial in sorted(found)]


def _variables_of(thing: Any) -> Iterable[sj.SharedVariable]:
    if isinstance(thing, sj.SharedVariable):
        return [thing]
    if isinstance(thing, sj.CompiledFunction | DataParallel):
        return thing.shared
    if isinstance(thing, sj.random.Stream):
        return [thing.state]
    if isinstance(thing, layers.Layer):
        return [*layers.get_all_params(thing), *layers.get_updates(thing)]
    if isinstance(thing, Mapping | list | tuple):
        return [variable for item in thing for variable in _variables_of(item)]
    raise TypeError(
        f"a checkpoint holds compiled functions, layers, streams, shared variables, and lists or updates of them; "
        f"got {thing!r}"
    )


def _state_of(rng: Any) -> dict[str, Any]:
    """The state of a generator of NumPy, as a dictionary."""
    if isinstance(rng, np.random.Generator):
        return dict(rng.bit_generator.state)
    if rng is np.random or isinstance(rng, np.random.RandomState):
        return dict(rng.get_state(legacy=False))
    raise TypeError(
        f"rng must be a generator of NumPy (numpy.random.default_rng(seed), numpy.random.RandomState(seed) or "
        f"numpy.random), got {rng!r}"
    )


def _set_state(rng: Any, state: Mapping[str, Any]) -> None:
    if isinstance(rng, np.random.Generator):
        rng.bit_generator.state = state
    else:
        rng.set_state(state)


def _plain(value: Any) -> Any:
    """An array or a number of NumPy as lists and numbers, a history as a dictionary, for JSON."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"counters must be numbers, strings, or lists and dictionaries of them, got {value!r}")
