"""The C functions of a call: they fill in the table, run the stages, and hand out the results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from scanjit import types
from scanjit.ir import INPUT
from scanjit.library.header import arguments, c_type
from scanjit.library.layout import LayoutWriter, listed, nbytes
from scanjit.library.model import Level, LibraryModel
from scanjit.library.status import codes
from scanjit.runtime.table import STATUS_WORDS
from scanjit.simd.line import LINE_BYTES
from scanjit.types import Dimension

_FILL = """\
/* Check what is given, and fill in the table that the program reads. */
static int fill{end}({given}, size_t bytes, layout{end} *at)
{{
    const int status = lay_out{end}(sizes, at);
    unsigned char *const memory = (unsigned char *)workspace;
    int64_t *const table = (int64_t *)workspace;
    if (status != 0)
        return status;
    if (workspace == NULL)
        return {guard}_NULL;
    if ((uintptr_t)workspace % 64 != 0)
        return {guard}_MISALIGNED;
    if (bytes < (size_t)at->bytes)
        return {guard}_WORKSPACE;
{checks}
{stores}
    memset(table + {size}, 0, {status}); /* where the program reports what is wrong */
    memset(memory + {line_at}, 0, {line_bytes});
{lines}    return 0;
}}
"""
_LINES = """\
    {{
        /* No thread ends early: the number that each looks at is what it expects. */
        int64_t *line = (int64_t *)(void *)(memory + {line_at});
        int i;
        for (i = 0; i < {most}; i++, line += {step})
            line[0] = address(line + 1);
    }}
"""
_AFTER = """\
/* {task} */
static int {function}({given}, layout{end} *at)
{{
    unsigned char *const memory = (unsigned char *)workspace;
    int64_t *const table = (int64_t *)workspace;
{lines}
    return 0;
}}
"""
_NEXT = "The next stage: look at what the last one reported, learn the sizes that it computed, and fill in the table."
_FINISH = "Look at what the program reported, and hand out what it computed."
_RUN = """\
static int run{end}({given}, size_t bytes)
{{
    layout{end} at;
    int status = fill{end}(sizes, inputs, outputs, state, workspace, bytes, &at);
{calls}
    return status != 0 ? status : finish{end}(sizes, inputs, outputs, state, workspace, &at);
}}
"""
_WORK = """\
typedef struct team{end} {{
    int64_t table, line;
    int threads;
}} team{end};
"""
_WORK_OF_STAGE = """\
static void work{end}_{stage}(void *argument, int thread)
{{
    const team{end} *all = (const team{end} *)argument;
    {program}(all->table, thread, all->threads, all->line + thread * {line_bytes});
}}
"""
_PARALLEL = """\
static int run_parallel{end}({given}, size_t bytes,
    int threads, {name}_parallel_for parallel_for, void *context)
{{
    layout{end} at;
    team{end} all;
    int status = fill{end}(sizes, inputs, outputs, state, workspace, bytes, &at);
    all.table = address(workspace);
    all.line = all.table + {line_at};
    all.threads = threads;
{calls}
    return status != 0 ? status : finish{end}(sizes, inputs, outputs, state, workspace, &at);
}}
"""


class _Copy(NamedTuple):
    """A result that is copied at the end of a call: its destination in C, the number of its array, and its bytes."""

    to: str
    number: int
    nbytes: Dimension


def level_text(model: LibraryModel, level: Level) -> str:
    """The C functions of one level."""
    return _CallWriter(model, level).text()


class _CallWriter:
    """Writes the C functions of one level. Arrays have the numbers of `level.recipe`: first the leaves, then the
    results of all stages."""

    def __init__(self, model: LibraryModel, level: Level) -> None:
        self.model, self.level = model, level
        self.tables = [stage.layout.table for stage in level.stages]
        self.at, self.face = LayoutWriter(model, level), model.interface
        self.numbers = dict(zip(dict.fromkeys(model.graph.roots), level.recipe.outputs, strict=True))
        """The number of the array of each result of the graph."""
        self.arrays: dict[int, tuple[int, int]] = {}
        """For the number of each array that a stage computes: the stage, and the position among its results."""
        for i, stage in enumerate(level.stages):
            for k, _ in enumerate(stage.layout.results):
                self.arrays[len(level.leaves) + len(self.arrays)] = (i, k)
        self.places: dict[tuple[int, int], str] = {}
        """The address in C of each buffer of results, by the number of the stage and of the buffer in it."""

    def text(self) -> str:
        copies = self._place_results()
        given = {"name": self.face.name, "guard": self.face.guard, "end": self.at.end, "line_at": self.at.line_at}
        given["given"] = arguments(self.face)
        threads, checks = self.model.threads, self._checks()
        stores = [self._stores(i) for i, _ in enumerate(self.tables)]  # before `at.text()`, which computes their sizes
        handed = [*self._unfit(), *map(self._copied, copies), *self._shapes()]
        parts = [
            _FILL.format(
                **given,
                size=self.tables[0].size,
                checks="\n".join(checks),
                stores="\n".join(stores[0]),
                status=8 * STATUS_WORDS,
                line_bytes=LINE_BYTES * threads,
                lines=_LINES.format(**given, step=LINE_BYTES // 8, most=threads) if threads > 1 else "",
            )
        ]
        last = len(self.tables)
        for stage in range(1, last):
            lines = [*self._between(stage), *stores[stage]]
            lines.append(f"    memset(table + {self.tables[stage].size}, 0, {8 * STATUS_WORDS});")
            parts.append(self._after(f"next{self.at.end}_{stage}", _NEXT, lines, given))
        parts.append(self._after(f"finish{self.at.end}", _FINISH, [*self._between(last), *handed], given))
        parts += self._runs(given)
        return "\n".join([self.at.text(), *parts])

    def _after(self, function: str, task: str, lines: list[str], given: Mapping[str, Any]) -> str:
        """A function that is called after a stage. Parameters that no line uses are cast to void, so that C compilers
        do not warn."""
        text, words = "\n".join(lines), ("sizes", "inputs", "outputs", "state", "at", "memory", "table")
        unused = "".join(f"\n    (void){word};" for word in words if not re.search(rf"\b{word}\b", text))
        return _AFTER.format(**given, function=function, task=task, lines=(text + unused).lstrip("\n"))

    def _runs(self, given: Mapping[str, Any]) -> list[str]:
        """The functions that run all stages: `run` on one thread, and, if `threads` is above 1, `run_parallel`."""
        end, arguments = given["end"], "sizes, inputs, outputs, state, workspace, &at"
        alone: list[str] = []
        together: list[str] = []
        parts = [_WORK.format(**given)]
        for i, stage in enumerate(self.level.stages):
            parts.append(_WORK_OF_STAGE.format(**given, stage=i, program=stage.program, line_bytes=LINE_BYTES))
            if i:
                following = ["    if (status == 0)", f"        status = next{end}_{i}({arguments});"]
                alone, together = [*alone, *following], [*together, *following]
            line = f"address((unsigned char *)workspace + {self.at.line_at})"
            alone += ["    if (status == 0)", f"        {stage.program}(address(workspace), 0, 1, {line});"]
            together += [f"    if (status == 0 && parallel_for(context, threads, work{end}_{i}, &all) != 0)"]
            together += [f"        status = {self.face.guard}_TEAM;"]
        run = _RUN.format(**given, calls="\n".join(alone))
        if self.model.threads == 1:
            return [run]
        return [run, *parts, _PARALLEL.format(**given, calls="\n".join(together))]

    def _between(self, stage: int) -> list[str]:
        """The lines after stage number `stage`, where the first stage has number 1: they return its status if it
        reported an index out of bounds, and read the sizes that it computed."""
        addresses = {}
        for number, (i, k) in self.arrays.items():
            which = self.level.stages[i].layout.results[k][0]
            if i < stage:
                kind = c_type(self.tables[i].out_buffers[which].dtype)
                addresses[number] = kind, self._result(number)
        return [*self._reported(stage - 1), *self.at.after(stage, addresses)]

    def _result(self, number: int) -> str:
        """The address in C of an array that a stage computed."""
        i, k = self.arrays[number]
        which, offset, _ = self.level.stages[i].layout.results[k]
        start = offset * self.tables[i].out_buffers[which].dtype.itemsize
        place = self.places[i, which]
        if start == 0:
            return f"(const void *)({place})"
        return f"(const void *)((const unsigned char *)({place}) + {self.at.value(start)})"

    # ---- what is given

    def _pointers_of_caller(self) -> Mapping[str, Dimension]:
        """The pointers that the caller passes, as C expressions, each with the bytes of its array."""
        found = {f"inputs->{each.name}": nbytes(each) for each in self.face.given}
        return {**found, **{f"outputs->{each.name}": nbytes(each) for each in self.face.given_back}}

    def _checks(self) -> list[str]:
        """Lines that return the status NULL if a pointer is null. Pointers of arrays without elements may be null."""
        given, lines, null = self._pointers_of_caller(), [], f"        return {self.face.guard}_NULL;"
        for struct in ("inputs", "outputs", "state"):
            used = bool(self.face.state) if struct == "state" else any(place.startswith(struct) for place in given)
            lines += [f"    if ({struct} == NULL)", null] if used else [f"    (void){struct};"]
        for place, dim in given.items():
            fixed = self.at.fixed(dim)
            if fixed is None:
                lines += [f"    if ({place} == NULL && {self.at.value(dim)} > 0)", null]
            elif fixed > 0:
                lines += [f"    if ({place} == NULL)", null]
        return lines

    def _stores(self, stage: int) -> list[str]:
        """Lines that store the entries of the table of a stage."""
        table, at, arguments = self.tables[stage], self.at, self.level.recipe.stages[stage].arguments
        entries: list[tuple[int, str]] = []
        for dim, places in table.numbers:
            entries += [(i, at.value(dim)) for i in places]
        entries += [(i, f"address({self.model.datum(data)})") for i, data in table.constants]
        entries += [(i, f"address(memory + {at.place(stage, which)})") for i, which in table.temporaries]
        entries += [(i, f"address(table + {table.size})") for i in table.status]
        entries += [(i, "0") for i in table.ready]
        entries += [(i, f"address(memory + {at.sync_at})") for i in table.sync]
        entries += [(i, self._argument(arguments[which])) for i, which in table.inputs]
        entries += [(i, f"address({self.places[stage, which]})") for i, which in table.outputs]
        lines = [f"    table[{i}] = {text};" for i, text in sorted(entries)]
        if table.sync and self.model.threads > 1:
            lines.append(f"    memset(memory + {at.sync_at}, 0, {at.sync_bytes});")
        return lines

    def _argument(self, number: int) -> str:
        """The address of an argument of a stage: an argument of the call, the value of a shared variable, or a result
        of an earlier stage."""
        if number in self.arrays:
            return f"address({self._result(number)})"
        node = self.level.leaves[number]
        if node.op is INPUT:
            each = dict(zip(self.model.graph.inputs, self.face.inputs, strict=True))[node]
            if each.atom is None:
                return f"address(inputs->{each.name})"
            fixed = self.face.fixed.get(each.atom)  # 8 bytes: an int32 is its low ones, which all targets store first
            value = f"&sizes->{self.face.sizes[each.atom]}" if fixed is None else self.model.datum(np.array(fixed))
            return f"address({value})"
        variable = node.params["variable"]
        for each, updated in self.face.state:
            if updated is variable:
                return f"address(state->{each.name})"
        return f"address({self.model.datum(variable.stored)})"

    # ---- results

    def _place_results(self) -> list[_Copy]:
        """Choose an address for each buffer of results: the caller's array, if the buffer holds exactly one output,
        otherwise memory of the workspace. Returns the results that must be copied to the caller from there."""
        graph, stages = self.model.graph, self.level.stages
        updates = dict(graph.updates)
        wanted = [(f"outputs->{a.name}", node) for a, node in zip(self.face.outputs, graph.outputs, strict=True)]
        wanted += [(f"state->{each.name}", updates[variable]) for each, variable in self.face.state]
        copies: list[_Copy] = []
        for to, node in wanted:
            number = self.numbers[node]
            i, k = self.arrays[number]
            which, offset, shape = stages[i].layout.results[k]
            buffer = self.tables[i].out_buffers[which]
            whole = offset == 0 and types.product(shape) == types.product(buffer.shape)
            alone = [each for each, _, _ in stages[i].layout.results].count(which) == 1
            if to.startswith("outputs") and whole and alone and (i, which) not in self.places:
                self.places[i, which] = to
            else:
                copies.append(_Copy(to, number, types.product(shape) * buffer.dtype.itemsize))
        for i, table in enumerate(self.tables):
            for which, buffer in enumerate(table.out_buffers):
                if (i, which) not in self.places:
                    self.places[i, which] = f"memory + {self.at.keep(buffer.nbytes)}"
        return copies

    def _copied(self, copy: _Copy) -> str:
        return f"    memcpy({copy.to}, {self._result(copy.number)}, (size_t){self.at.value(copy.nbytes)});"

    def _shapes(self) -> list[str]:
        """Lines that store the shapes that the function computed into the caller's arrays for them."""
        lines = []
        for each, node in zip(self.face.outputs, self.model.graph.outputs, strict=True):
            if each.most is not None:
                i, k = self.arrays[self.numbers[node]]
                dims, to = self.level.stages[i].layout.results[k][2], self.face.shapes[each].name
                lines += [f"    outputs->{to}[{axis}] = {self.at.value(dim)};" for axis, dim in enumerate(dims)]
        return lines

    def _unfit(self) -> list[str]:
        """Lines that return the status UNFIT if a branch computed a size that does not fit."""
        lines = []
        for number in self.level.recipe.unfit:
            lines += [f"    if (*(const unsigned char *){self._result(number)} != 0)"]
            lines += [f"        return {self.face.guard}_UNFIT;"]
        return lines

    def _reported(self, stage: int) -> list[str]:
        """Lines that return the status of the index out of bounds that a stage reported, if it reported one."""
        numbers, guard = codes(self.model, self.level.stages[stage].codes), self.face.guard
        if not numbers:
            return []
        at = f"table[{self.tables[stage].size}]"
        return [
            f"    static const int meaning[] = {{{listed(numbers)}}};",
            f"    if ({at} != 0)",
            f"        return {at} > 0 && {at} <= {len(numbers)} ? meaning[{at} - 1] : {guard}_UNFIT;",
        ]
