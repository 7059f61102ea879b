"""The C functions of a call: what fills in the table, and what hands out the results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from scanjit import types
from scanjit.ir import INPUT, Node
from scanjit.library.layout import LINE_BYTES, LayoutWriter, listed, nbytes
from scanjit.library.model import Level, Model
from scanjit.library.status import codes
from scanjit.runtime.table import STATUS_WORDS
from scanjit.types import Dimension

_FILL = """\
/* Check what is given, and fill in the table that the program reads. */
static int fill{end}(const {name}_sizes *sizes, const {name}_inputs *inputs, const {name}_outputs *outputs,
    {name}_state *state, void *workspace, size_t bytes, layout{end} *at)
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
_FINISH = """\
/* Look at what the program reported, and hand out what it computed. */
static int finish{end}(const {name}_outputs *outputs, {name}_state *state, void *workspace, const layout{end} *at)
{{
    unsigned char *const memory = (unsigned char *)workspace;
    const int64_t reported = ((const int64_t *)workspace)[{size}];
{lines}
    return 0;
}}
"""
_RUN = """\
static int run{end}(const {name}_sizes *sizes, const {name}_inputs *inputs, const {name}_outputs *outputs,
    {name}_state *state, void *workspace, size_t bytes)
{{
    layout{end} at;
    const int status = fill{end}(sizes, inputs, outputs, state, workspace, bytes, &at);
    if (status != 0)
        return status;
    {program}(address(workspace), 0, 1, address((unsigned char *)workspace + {line_at}));
    return finish{end}(outputs, state, workspace, &at);
}}
"""
_PARALLEL = """\
typedef struct team{end} {{
    int64_t table, line;
    int threads;
}} team{end};

static void work{end}(void *argument, int thread)
{{
    const team{end} *all = (const team{end} *)argument;
    {program}(all->table, thread, all->threads, all->line + thread * {line_bytes});
}}

static int run_parallel{end}(const {name}_sizes *sizes, const {name}_inputs *inputs, const {name}_outputs *outputs,
    {name}_state *state, void *workspace, size_t bytes,
    int threads, {name}_parallel_for parallel_for, void *context)
{{
    layout{end} at;
    team{end} all;
    const int status = fill{end}(sizes, inputs, outputs, state, workspace, bytes, &at);
    if (status != 0)
        return status;
    all.table = address(workspace);
    all.line = all.table + {line_at};
    all.threads = threads;
    if (parallel_for(context, threads, work{end}, &all) != 0)
        return {guard}_TEAM;
    return finish{end}(outputs, state, workspace, &at);
}}
"""


class _Copy(NamedTuple):
    """A result that is copied in the end, and where it lies: an address in C, and an offset from there in bytes."""

    to: str
    address: str
    offset: Dimension
    nbytes: Dimension


def level_text(model: Model, level: Level) -> str:
    """All functions of one level."""
    return _CallWriter(model, level).text()


class _CallWriter:
    """Writes the functions of one level."""

    def __init__(self, model: Model, level: Level) -> None:
        self.model, self.level, self.table = model, level, level.layout.table
        self.at = LayoutWriter(model, level)
        self.face = model.interface
        self.places: list[str] = [""] * len(self.table.out_buffers)
        """For each buffer of results, its address in C."""

    def text(self) -> str:
        copies = self._place_results()
        given = {
            "name": self.face.name,
            "guard": self.face.guard,
            "end": self.at.end,
            "size": self.table.size,
            "program": self.level.program,
            "line_at": self.at.line_at,
        }
        several = self.model.threads > 1
        checks, stores = self._checks(), self._stores()
        finish = "\n".join([*self._reported(), *self._unfit(), *map(self._copied, copies)])
        unused = [word for word in ("outputs", "state", "memory", "at") if not re.search(rf"\b{word}\b", finish)]
        finish += "".join(f"\n    (void){word};" for word in unused)
        parts = [
            _FILL.format(
                **given,
                checks="\n".join(checks),
                stores="\n".join(stores),
                status=8 * STATUS_WORDS,
                line_bytes=LINE_BYTES * self.model.threads,
                lines=_LINES.format(**given, step=LINE_BYTES // 8, most=self.model.threads) if several else "",
            ),
            _FINISH.format(**given, lines=finish),
            _RUN.format(**given),
        ]
        if several:
            parts.append(_PARALLEL.format(**given, line_bytes=LINE_BYTES))
        return "\n".join([self.at.text(), *parts])

    # ---- what is given

    def _given(self) -> Mapping[str, Dimension]:
        """The pointers of a call, each with its bytes."""
        found = {f"inputs->{each.name}": nbytes(each) for each in self.face.inputs if each.atom is None}
        return {**found, **{f"outputs->{each.name}": nbytes(each) for each in self.face.outputs}}

    def _checks(self) -> list[str]:
        """No pointer is null, but those of arrays without elements."""
        given, lines, null = self._given(), [], f"        return {self.face.guard}_NULL;"
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

    def _stores(self) -> list[str]:
        """What is stored in the table."""
        table, at = self.table, self.at
        entries: list[tuple[int, str]] = []
        for dim, places in table.numbers:
            entries += [(i, at.value(dim)) for i in places]
        entries += [(i, f"address({self.model.datum(data)})") for i, data in table.constants]
        entries += [(i, f"address(memory + at->place[{which}])") for i, which in table.temporaries]
        entries += [(i, f"address(table + {table.size})") for i in table.status]
        entries += [(i, "0") for i in table.ready]
        entries += [(i, f"address(memory + {at.sync_at})") for i in table.sync]
        arguments = self.level.recipe.stages[0].arguments
        entries += [(i, self._argument(self.level.leaves[arguments[which]])) for i, which in table.inputs]
        entries += [(i, f"address({self.places[which]})") for i, which in table.outputs]
        lines = [f"    table[{i}] = {text};" for i, text in sorted(entries)]
        if table.sync and self.model.threads > 1:
            lines.append(f"    memset(memory + {at.sync_at}, 0, {at.sync_bytes});")
        return lines

    def _argument(self, node: Node) -> str:
        """The address of an argument, or of the value of a shared variable."""
        if node.op is INPUT:
            each = dict(zip(self.model.graph.inputs, self.face.inputs, strict=True))[node]
            if each.atom is None:
                return f"address(inputs->{each.name})"
            fixed = self.face.fixed.get(each.atom)  # all targets store the low bytes of a number first
            value = f"&sizes->{self.face.sizes[each.atom]}" if fixed is None else self.model.datum(np.array(fixed))
            return f"address({value})"
        variable = node.params["variable"]
        for each, updated in self.face.state:
            if updated is variable:
                return f"address(state->{each.name})"
        return f"address({self.model.datum(variable.stored)})"

    # ---- results

    def _place_results(self) -> list[_Copy]:
        """Find an address for each buffer of results: the caller's, where all of it is one result. Returns what is
        copied."""
        graph, results = self.model.graph, self.level.layout.results
        numbers = dict(zip(dict.fromkeys(graph.roots), self.level.recipe.outputs, strict=True))
        updates = dict(graph.updates)
        wanted = [(f"outputs->{a.name}", a, node) for a, node in zip(self.face.outputs, graph.outputs, strict=True)]
        wanted += [(f"state->{each.name}", each, updates[variable]) for each, variable in self.face.state]
        users = [which for which, _, _ in results]
        copies: list[_Copy] = []
        for to, each, node in wanted:
            which, offset, shape = results[numbers[node] - len(self.level.leaves)]
            whole = offset == 0 and types.product(shape) == types.product(self.table.out_buffers[which].shape)
            if to.startswith("outputs") and whole and users.count(which) == 1 and not self.places[which]:
                self.places[which] = to
            else:
                size = each.dtype.itemsize
                copies.append(_Copy(to, str(which), offset * size, types.product(shape) * size))
        for which, place in enumerate(self.places):
            if not place:
                self.places[which] = f"memory + {self.at.keep(self.table.out_buffers[which].nbytes)}"
        return [copy._replace(address=self.places[int(copy.address)]) for copy in copies]

    def _copied(self, copy: _Copy) -> str:
        start = "" if copy.offset == 0 else f" + {self.at.value(copy.offset)}"
        address = copy.address if not start or copy.address.startswith("memory") else f"(const char *){copy.address}"
        return f"    memcpy({copy.to}, {address}{start}, (size_t){self.at.value(copy.nbytes)});"

    def _unfit(self) -> list[str]:
        """Sizes that branches compute fit."""
        lines = []
        for count in self.level.recipe.unfit:
            which, offset, _ = self.level.layout.results[count - len(self.level.leaves)]
            lines += [f"    if (*({self.places[which]} + {self.at.value(offset)}) != 0)"]
            lines += [f"        return {self.face.guard}_UNFIT;"]
        return lines

    def _reported(self) -> list[str]:
        """An index out of bounds is a status."""
        numbers, guard = codes(self.model, self.level.codes), self.face.guard
        if not numbers:
            return ["    (void)reported;"]
        return [
            f"    static const int meaning[] = {{{listed(numbers)}}};",
            "    if (reported != 0)",
            f"        return reported > 0 && reported <= {len(numbers)} ? meaning[reported - 1] : {guard}_UNFIT;",
        ]
