"""The C function that lays out the memory of a call: it computes sizes, and the places of arrays in the workspace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from scanjit import types
from scanjit.codegen.places import SYNC_WORDS
from scanjit.library.dims import Sizes, number
from scanjit.library.model import Array, Level, LibraryModel
from scanjit.library.refusals import bounded
from scanjit.library.status import FIRST_CHECK
from scanjit.runtime.sizes import Check
from scanjit.runtime.table import STATUS_WORDS
from scanjit.schedule.memory.addresses import ALIGNMENT, assign
from scanjit.schedule.nests import Lifetime
from scanjit.schedule.threads.teams import MOST_TEAMS
from scanjit.simd.line import LINE_BYTES
from scanjit.types import Atom, Dimension

_LAYOUT = """\
typedef struct {layout} {{
    int64_t bytes; /* of the workspace */
{fields}
}} {layout};

/* Where everything lies in the workspace for these sizes; or what is wrong with them. */
static int lay_out{end}(const {name}_sizes *sizes, {layout} *at)
{{
    int wide = 0;
{lines}
    if (wide || at->bytes > (int64_t)(PTRDIFF_MAX / 2))
        return {guard}_SIZE;
    return 0;
}}
"""
_PLACES = """\
    {{
        /* The temporaries in the order of their first use. The `others` of each come before it, and are in use at the
           same time. Each gets the first gap that is large enough. */
        static const uint16_t order[] = {{{order}}}, others[] = {{{others}}};
        static const uint32_t starts[] = {{{starts}}};
        int64_t need[{count}], *const place = at->place + {first};
        uint32_t i, j;
{needs}
        for (i = 0; i < {count}; i++) {{
            const int which = order[i];
            int64_t start = {head};
            if (need[which] > LARGEST / 4)
                return {guard}_SIZE;
            need[which] = need[which] > 0 ? (need[which] + 63) / 64 * 64 : 64;
            for (j = starts[i]; j < starts[i + 1];) {{
                const int other = others[j++];
                if (place[other] < start + need[which] && start < place[other] + need[other]) {{
                    start = place[other] + need[other];
                    j = starts[i];
                }}
            }}
            if (start > LARGEST / 4)
                return {guard}_SIZE;
            place[which] = start;
            at->bytes = larger(at->bytes, start + need[which]);
        }}
    }}"""


class LayoutWriter:
    """Writes the layout of one level. `text` comes last: it holds only the values and places that `value`, `place` and
    `keep` were asked for before.

    Attributes
    ----------
    learned : the sizes that stages compute: each with the number of the array that holds it, and the number of the
        stage after which it is known. The first stage has number 1.
    line_at : the offset of the lines of threads in a workspace. The table lies before them.
    sync_at, sync_bytes : the offset and the bytes of the words with which threads wait for each other.
    """

    def __init__(self, model: LibraryModel, level: Level) -> None:
        self.model, self.level = model, level
        self.end = f"_{level.label}" if level.label else ""
        face = model.interface
        known: dict[Atom, str | int] = {**face.fixed, **level.decided}
        known |= {atom: f"sizes->{made}" for atom, made in face.sizes.items()}
        self._given = frozenset(known)
        self._sizes = [Sizes(known)]
        self._after: dict[Atom, int] = {}
        self.learned: list[tuple[Atom, int, int]] = []
        for stage, found in enumerate(level.recipe.stages, 1):
            for atom, array in found.sizes:
                if atom in self._after:
                    continue  # a later stage passes on the size of an earlier one
                known = {**known, atom: f"at->value[{len(self.learned)}]"}
                self._after[atom] = stage
                self.learned.append((atom, array, stage))
            self._sizes.append(Sizes(known))
        self._tables = [stage.layout.table for stage in level.stages]
        self._first = [sum(len(table.lives) for table in self._tables[:i]) for i in range(len(self._tables))]
        self._numbers: dict[Dimension, str] = {}
        self._kept: list[Dimension] = []
        self.line_at = _rounded(8 * (max(table.size for table in self._tables) + STATUS_WORDS))
        self.sync_at = self.line_at + LINE_BYTES * model.threads
        self.sync_bytes = 8 * SYNC_WORDS * (1 + MOST_TEAMS) if model.threads > 1 else 0
        self._head = self.sync_at + _rounded(self.sync_bytes)

    def value(self, dim: Dimension) -> str:
        """A dimension in C, in the functions of a call: a number, or a field of the layout."""
        fixed = self.fixed(dim)
        if fixed is not None:
            return number(fixed)
        if dim not in self._numbers:
            self._sizes[self._when(dim)].text(dim)
            self._numbers[dim] = f"at->number[{len(self._numbers)}]"
        return self._numbers[dim]

    def most(self, dim: Dimension) -> Dimension:
        """An upper bound of a dimension, made of sizes that are known before the call."""
        return bounded(dim, self._given)

    def fixed(self, dim: Dimension) -> int | None:
        """The number that a dimension is in all calls; None if it differs between calls."""
        return self._sizes[0].fixed(dim)

    def place(self, stage: int, which: int) -> str:
        """The field of the layout that holds the offset of temporary number `which` of a stage."""
        return f"at->place[{self._first[stage] + which}]"

    def _when(self, dim: Dimension) -> int:
        """The number of the stage after which a dimension is known; 0 if it is known before the first stage."""
        return max((self._after.get(atom, 0) for atom in types.atoms(dim)), default=0)

    def after(self, stage: int, addresses: Mapping[int, tuple[str, str]]) -> list[str]:
        """The lines after stage number `stage`, where the first stage has number 1. They read the sizes that it
        computed, check the conditions on them, and compute the dimensions that later stages use. `addresses` maps the
        number of an array to its C type and its address."""
        guard, lines = self.model.interface.guard, []
        for i, (_, array, when) in enumerate(self.learned):
            if when == stage:
                kind, address = addresses[array]
                lines += [f"    at->value[{i}] = *(const {kind} *)({address});"]
                lines += [
                    f"    if (at->value[{i}] > LARGEST || at->value[{i}] < -LARGEST)",
                    f"        return {guard}_SIZE;",
                ]
        unmet, filled = self._unmet(stage), self._filled(stage)
        found = [f"    {line}" for line in self._sizes[stage].lines]
        return [
            *lines,
            *(["    int wide = 0;"] if found else []),
            *found,
            *(self._overflows() if found else []),
            *unmet,
            *filled,
        ]

    def keep(self, nbytes: Dimension) -> str:
        """Reserve `nbytes` behind the temporaries; returns the field of the layout that holds their offset."""
        self._kept.append(self.most(nbytes))
        return f"at->kept[{len(self._kept) - 1}]"

    def text(self) -> str:
        """The C struct of the layout, and the function that fills it in."""
        name, guard = self.model.interface.name, self.model.interface.guard
        fields = (
            ("place", sum(len(table.lives) for table in self._tables), "of temporaries"),
            ("value", len(self.learned), "sizes that stages compute"),
            ("kept", len(self._kept), "of results that are copied in the end"),
            ("number", len(self._numbers), "sizes, and what is computed of them"),
        )
        unmet = self._unmet(0)
        rest = [*(self._overflows() if unmet else []), *unmet, *self._large(), *self._filled(0)]
        rest += [
            f"    at->bytes = {self._head};",
            *(line for k in range(len(self._tables)) for line in self._places(k)),
        ]
        rest += self._behind()
        lines = [*self._checked(), *(f"    {line}" for line in self._sizes[0].lines), *rest]
        return _LAYOUT.format(
            name=name,
            guard=guard,
            end=self.end,
            layout=f"layout{self.end}",
            fields="\n".join(f"    int64_t {field}[{count}]; /* {what} */" for field, count, what in fields if count),
            lines="\n".join(lines),
        )

    def _checked(self) -> list[str]:
        """Lines that return the status SIZE if a size of the call is beyond `LARGEST`, or negative for an array."""
        face = self.model.interface
        if not face.sizes:
            return ["    (void)sizes;"]
        lines = ["    if (sizes == NULL)", f"        return {face.guard}_NULL;"]
        for atom, made in face.sizes.items():
            least = "0" if atom.not_negative else "-LARGEST"
            lines += [f"    if (sizes->{made} < {least} || sizes->{made} > LARGEST)"]
            lines += [f"        return {face.guard}_SIZE;"]
        return lines

    def _checks(self, stage: int) -> list[tuple[int, Check, Dimension, Dimension]]:
        """The conditions on sizes whose two sides are known after a stage and not before, each with its number and its
        sides."""
        inside, found = dict(self.level.recipe.checked), []
        for i, check in enumerate(self.model.interface.checks):
            left, right = (types.substitute(dim, inside) for dim in (check.left, check.right))
            if max(self._when(left), self._when(right)) == stage:
                found.append((i, check, left, right))
        return found

    def _unmet(self, stage: int) -> list[str]:
        """Lines that return the status of a condition which is known after a stage and does not hold."""
        lines: list[str] = []
        for i, check, left, right in self._checks(stage):
            one, other = (self._sizes[stage].text(dim) for dim in (left, right))
            lines += [f"    if (!({one} {check.kind} {other}))", f"        return {FIRST_CHECK - i};"]
        return lines

    def _overflows(self) -> list[str]:
        return ["    if (wide)", f"        return {self.model.interface.guard}_SIZE;"]

    def _large(self) -> list[str]:
        """Lines that return the status SIZE if an array is larger than half of the address space."""
        face = self.model.interface
        buffers = [buffer.nbytes for table in self._tables for buffer in table.out_buffers]
        sizes = dict.fromkeys(map(self.most, [*map(nbytes, [*face.inputs, *face.outputs]), *buffers]))
        lines: list[str] = []
        for dim in sizes:
            if self.fixed(dim) is None:
                text = self._sizes[0].text(dim)
                lines += [f"    if ({text} > (int64_t)(PTRDIFF_MAX / 2))", f"        return {face.guard}_SIZE;"]
        return [*self._overflows(), *lines] if lines else []

    def _filled(self, stage: int) -> list[str]:
        """Lines that store the dimensions that are known after a stage and not before."""
        sizes = self._sizes[stage]
        return [f"    {at} = {sizes.text(dim)};" for dim, at in self._numbers.items() if self._when(dim) == stage]

    def _places(self, stage: int) -> list[str]:
        """Lines that compute the offsets of the temporaries of a stage. They may overlap those of other stages:
        two stages never run at the same time."""
        lives, sizes = self._tables[stage].lives, self._sizes[0]
        if all(self.fixed(self.most(life.nbytes)) is not None for life in lives):
            offsets, total = assign(lives, lambda dim: self.fixed(self.most(dim)) or 0)
            lines = [f"    {self.place(stage, i)} = {number(self._head + at)};" for i, at in enumerate(offsets)]
            return [*lines, f"    at->bytes = larger(at->bytes, {number(self._head + total)});"] if lines else []
        order, others, starts = _together(lives)
        needs = [sizes.text(self.most(life.nbytes)) for life in lives]
        text = _PLACES.format(
            guard=self.model.interface.guard,
            count=len(lives),
            head=self._head,
            first=self._first[stage],
            order=listed(order),
            others=listed(others or [0]),
            starts=listed(starts),
            needs="\n".join(f"        need[{i}] = {need};" for i, need in enumerate(needs)),
        )
        return [*self._overflows(), *text.splitlines()]

    def _behind(self) -> list[str]:
        """Lines that compute the offsets of the memory that `keep` reserved."""
        lines = []
        for i, dim in enumerate(self._kept):
            lines += [f"    at->kept[{i}] = at->bytes;"]
            fixed = self.fixed(dim)
            if fixed is not None:
                lines += [f"    at->bytes = sum(at->bytes, {number(_rounded(fixed))}, &wide);"]
            else:
                lines += [f"    at->bytes = sum(at->bytes, {self._sizes[0].text(dim)} / 64 * 64 + 64, &wide);"]
        return lines


def nbytes(each: Array) -> Dimension:
    """The bytes of memory that the caller gives for an array of the interface."""
    return types.product(each.room) * each.dtype.itemsize


def listed(numbers: Iterable[int]) -> str:
    """Numbers between commas, as in an initializer of C."""
    return ", ".join(map(str, numbers))


def _together(lives: Sequence[Lifetime]) -> tuple[list[int], list[int], list[int]]:
    """Three lists for `_PLACES`: the temporaries in the order of their first use; for each of them, the earlier ones
    that are in use at the same time, one group behind the other; and the starts of these groups. In a library, loops
    side by side run one after the other."""
    order = sorted(range(len(lives)), key=lambda i: lives[i].first)
    others: list[int] = []
    starts = [0]
    for k, i in enumerate(order):
        others += [j for j in order[:k] if lives[i].meets(lives[j])]
        starts.append(len(others))
    return order, others, starts


def _rounded(count: int) -> int:
    return -(-count // ALIGNMENT) * ALIGNMENT
