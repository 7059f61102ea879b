"""Recipes in the disk cache: if an earlier process built the same function, a new process starts from its recipe.

The key of a recipe covers the graph and everything else that decides what is made of it: all source of this package,
the versions of Python, NumPy and llvmlite, the target, and the function's name. The lines of the graph in the user's
files are no part of it. A recipe that is damaged, or does not fit, counts as missing.
"""

import functools
import math
import platform
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from scanjit import types
from scanjit.errors import suppressed
from scanjit.ir import Node
from scanjit.ops import BUILT_IN
from scanjit.ops.guest import Guest
from scanjit.runtime import cache, host
from scanjit.runtime.cache import CacheEntry
from scanjit.runtime.encoding import JSON, Encoded, collect, encode
from scanjit.runtime.recipe import Recipe
from scanjit.runtime.recipe_json import Known, read, write
from scanjit.runtime.token import digest, portable
from scanjit.runtime.undisturbed import undisturbed
from scanjit.show.identifiers import identifier

KIND = "recipe"
"""The ending of the names of these files."""


class Key(NamedTuple):
    """The data that finds a recipe: the name of its file, the number of arguments, and the things that the recipe may
    refer to."""

    stem: str
    arguments: int
    known: Known


def key_of(origins: Sequence[Node], outputs: Sequence[Node], name: str, changing: Collection[Node] = ()) -> Key | None:
    """The key of a function that computes `outputs` from `origins`. Every call gives the variables in `changing` new
    values. None if ops or objects of the user's own are part of the graph, and no digest describes them."""
    roots = [*origins, *outputs]
    encoded = encode(roots)
    if (
        any(not isinstance(each, Guest) or each.passes for each in encoded.objects)
        or not {node[0] for node in encoded.graph["nodes"]} <= BUILT_IN
    ):
        return None
    facts = (cache.version(host.target()), cache.source_digest(), platform.python_version(), np.__version__)
    content = [repr((facts, host.target())), name, len(origins), portable(encoded), _declared(encoded)]
    content.append([guest.symbol for guest in encoded.objects])
    content.append([i for i, origin in enumerate(origins) if origin in changing])
    stem = f"{identifier(name, 'function')}_{digest(content, encoded.arrays)[:20]}"
    return Key(stem, len(origins), Known(encoded.sizes, encoded.arrays, functools.partial(_order, roots)))


def _declared(encoded: Encoded) -> JSON:
    """The names of sizes, and the types of shared variables."""
    numbers = {atom: number for number, atom in enumerate(encoded.sizes)}
    names = [atom.name if types.is_named(atom) else None for atom in encoded.sizes]
    shapes = [
        [
            type_.dtype.name,
            *(dim if isinstance(dim, int) else [numbers[a] for a in types.atoms(dim)] for dim in type_.shape),
        ]
        for type_ in (variable.type.in_memory for variable in encoded.variables)
    ]
    return [names, shapes]


def _order(roots: Sequence[Node]) -> dict[Node, int]:
    order: dict[Node, int] = {}
    collect(roots, order)
    return order


def found(key: Key) -> Recipe | None:
    """The recipe with this key; None if the cache has none."""
    entry = cache.default().load(key.stem, KIND)
    return None if entry is None else _read(entry, key)


def keep(key: Key, recipe: Recipe) -> None:
    """Leave a recipe for later processes."""
    store = cache.default()
    entry = _written(key, recipe)
    if len(entry.payload) <= store.limit // 16:  # a larger one would drive out entries that are used more often
        undisturbed(lambda abandoned: store.store(key.stem, entry, KIND))


def again(key: Key, recipe: Recipe) -> Recipe:
    """A recipe as another process would read it. Raises an error if it cannot be read."""
    return _checked(_written(key, recipe), key)


def _written(key: Key, recipe: Recipe) -> CacheEntry:
    content, arrays = write(recipe, key.known)
    kinds = [[array.dtype.name, *array.shape] for array in arrays]
    kernels = [function.stem for stage in recipe.stages for function in stage.functions]
    return CacheEntry(
        {"content": content, "arrays": kinds, "kernels": kernels}, b"".join(array.tobytes() for array in arrays)
    )


def _read(entry: CacheEntry, key: Key) -> Recipe | None:
    with suppressed(Exception):  # whatever a file leads to that `keep` did not write for this graph
        return _checked(entry, key)
    return None


def _checked(entry: CacheEntry, key: Key) -> Recipe:
    recipe = read(entry.metadata["content"], list(_arrays(entry)), key.known)
    recipe.check(key.arguments)
    return recipe


def _arrays(entry: CacheEntry) -> Iterator[np.ndarray]:
    start = 0
    for name, *shape in entry.metadata["arrays"]:
        array = np.frombuffer(entry.payload, types.dtype_of(name), math.prod(shape), start).reshape(shape)
        start += array.nbytes
        yield array.copy()  # at an address that is a multiple of what the elements need
