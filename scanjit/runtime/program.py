"""A computation, compiled: its stages, run one after the other."""

from __future__ import annotations

import contextlib
import functools
from array import array
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import numpy as np

from scanjit import types
from scanjit.ir import Node
from scanjit.runtime import recipes, sizes as runtime_sizes
from scanjit.runtime.bounds import Unfit
from scanjit.runtime.compiled import AtOnce, CompiledStage, Finish, Run, Timer
from scanjit.runtime.kernels import Kernel, restored
from scanjit.runtime.layout import Layout
from scanjit.runtime.recipe import Recipe
from scanjit.runtime.recipes import Key, key_of
from scanjit.schedule.nests import verify as verifier
from scanjit.show import Document
from scanjit.types import Atom

if TYPE_CHECKING:
    # the front end, which is not imported at run time: a recipe from the cache does not need it
    from scanjit.codegen.generate import Generated
    from scanjit.runtime.front import Front, MadeStage


class Staged:
    """A compiled computation. Safe to call from several threads at once.

    If a size depends on a computed value, everything before it is a stage of its own, which runs before the sizes of
    the next stage are known. With `timer`, each stage takes the time of its statements. Every call gives the shared
    variables `changing` new values, so statements that read them run in every call.
    """

    def __init__(
        self,
        origins: list[Node],
        outputs: list[Node],
        name: str,
        mode: str,
        timer: Callable[[Generated, Layout], Timer] | None = None,
        changing: Collection[Node] = (),
    ) -> None:
        self.origins, self.name, self.mode, self._asked = origins, name, mode, outputs
        self._conditions = [c for c in runtime_sizes.conditions(outputs) if c.on_values]
        self._timed, self.changing = timer is not None, frozenset(changing)
        self._recipe, kernels = self._found() or self._compiled()
        self._simple = self._recipe.simple and not self._conditions
        self._checked = [(atom, types.formula(dim)) for atom, dim in self._recipe.checked]
        self.stages = [
            CompiledStage(stage, some, name, mode, functools.partial(self._made, i), timer)
            for i, (stage, some) in enumerate(zip(self._recipe.stages, kernels, strict=True))
        ]

    @functools.cached_property
    def front(self) -> Front:
        """The result of the front end. If the recipe came from the cache, the front end runs when this is first asked
        for."""
        from scanjit.runtime.front import front

        return front(self.origins, self._asked, self._conditions, self.name, self._timed, self.changing)

    def _made(self, number: int) -> MadeStage:
        return self.front.stages[number]

    @functools.cached_property
    def _key(self) -> Key | None:
        if self.mode != "numba" or self._timed:
            return None
        return key_of(self.origins, self._asked, self.name, self.changing)

    def _found(self) -> tuple[Recipe, list[list[Kernel]]] | None:
        """The recipe that an earlier process left in the cache, with its kernels."""
        recipe = None if self._key is None or verifier.VERIFY else recipes.found(self._key)
        if recipe is None:
            return None
        kernels = [restored(stage.functions) for stage in recipe.stages]
        complete = [some for some in kernels if some is not None]
        return (recipe, complete) if len(complete) == len(kernels) else None

    def _compiled(self) -> tuple[Recipe, list[list[Kernel]]]:
        """The recipe that the front end makes, which is left for later processes, with its kernels."""
        if self.mode != "numba":
            return self.front.recipe(self.origins, lambda made: []), [[]] * len(self.front.stages)
        from scanjit.runtime.front import compiled, described

        kernels = {made.stage: compiled(made.code) for made in self.front.stages}
        recipe = self.front.recipe(self.origins, lambda made: described(made.code, kernels[made.stage]))
        if self._key is not None:
            if verifier.VERIFY:
                recipe = recipes.again(self._key, recipe)
            else:
                recipes.keep(self._key, recipe)
        return recipe, list(kernels.values())

    @property
    def outputs(self) -> list[Node]:
        """The outputs of the rewritten graph."""
        return self.front.outputs

    def for_sizes(self, sizes: dict[Atom, int]) -> Run:
        return self.stages[0].for_sizes(sizes) if self._simple else functools.partial(self._run, sizes)

    def at_once(self, sizes: dict[Atom, int], alike: array[int], finish: Finish) -> AtOnce | None:
        return self.stages[0].at_once(sizes, alike, finish) if self._simple else None

    def _run(self, given: dict[Atom, int], arrays: list[np.ndarray]) -> list[np.ndarray]:
        """New arrays, one for each output, where the sizes of the arguments are `given`."""
        recipe, values, sizes = self._recipe, [*arrays], dict(given)
        self._learn(sizes, values, recipe.sizes)
        left = runtime_sizes.check(self._conditions, sizes)
        for stage, made in zip(recipe.stages, self.stages, strict=True):
            values += made.for_sizes(sizes)([values[number] for number in stage.arguments])
            self._learn(sizes, values, stage.sizes)
            left = runtime_sizes.check(left, sizes)
        if any(values[number] for number in recipe.unfit):
            raise Unfit("a size that is computed in a step of a loop or in a branch of ifelse does not fit")
        return [values[number] for number in recipe.outputs]

    def _learn(self, sizes: dict[Atom, int], values: list[np.ndarray], new: list[tuple[Atom, int]]) -> None:
        """Add new sizes, given with the numbers of their arrays, and the sizes of conditions that can now be
        computed."""
        sizes |= {atom: int(values[number]) for atom, number in new}
        for atom, compute in self._checked:
            with contextlib.suppress(KeyError):
                sizes[atom] = compute(sizes)

    @property
    def source(self) -> str:
        """All generated code: for each stage its main function, then the functions that it calls."""
        return "\n\n".join(text for stage in self.stages for text in stage.sources())

    def explain(self) -> Document:
        """The rewrites of the graph, the loops, nests and memory: what was done to make it fast, and what was not."""
        graph = [Document("graph", *self.front.notes)] if self.front.notes else []
        return Document(self.name, *graph, *(Document("program", *stage.notes()) for stage in self.stages))

    def inspect_asm(self) -> str:
        """The assembly of all kernels."""
        return "\n\n".join(kernel.asm() for stage in self.stages for kernel in stage.kernels)
