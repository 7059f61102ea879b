"""The C function that lays out the memory of a call: sizes and what is computed of them, and where everything lies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scanjit import types
from scanjit.codegen.places import SYNC_WORDS
from scanjit.library.dims import Sizes, number
from scanjit.library.model import Array, Level, Model
from scanjit.library.status import FIRST_CHECK
from scanjit.runtime.table import STATUS_WORDS
from scanjit.schedule.memory.addresses import ALIGNMENT, assign
from scanjit.schedule.nests import Lifetime
from scanjit.schedule.threads.beside import MOST_BRANCHES
from scanjit.types import Dimension

LINE_BYTES = 256
"""Of the line of a thread (see `runtime.native`)."""
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
        int64_t need[{count}];
        uint32_t i, j;
{needs}
        at->bytes = {head};
        for (i = 0; i < {count}; i++) {{
            const int which = order[i];
            int64_t start = {head};
            if (need[which] > LARGEST / 4)
                return {guard}_SIZE;
            need[which] = need[which] > 0 ? (need[which] + 63) / 64 * 64 : 64;
            for (j = starts[i]; j < starts[i + 1];) {{
                const int other = others[j++];
                if (at->place[other] < start + need[which] && start < at->place[other] + need[other]) {{
                    start = at->place[other] + need[other];
                    j = starts[i];
                }}
            }}
            if (start > LARGEST / 4)
                return {guard}_SIZE;
            at->place[which] = start;
            at->bytes = larger(at->bytes, start + need[which]);
        }}
    }}"""


class LayoutWriter:
    """Writes the layout of one level. What the call needs of it is asked for first.

    Attributes
    ----------
    line_at : where the lines of threads lie in a workspace. The table is in front.
    sync_at, sync_bytes : where threads meet.
    """

    def __init__(self, model: Model, level: Level) -> None:
        self.model, self.level, self.lives = model, level, level.layout.table.lives
        self.end = f"_{level.label}" if level.label else ""
        face = model.interface
        named = {atom: f"sizes->{made}" for atom, made in face.sizes.items()}
        self._sizes = Sizes({**face.fixed, **level.decided, **named})
        self._numbers: dict[Dimension, str] = {}
        self._kept: list[Dimension] = []
        self.line_at = _rounded(8 * (level.layout.table.size + STATUS_WORDS))
        self.sync_at = self.line_at + LINE_BYTES * model.threads
        self.sync_bytes = 8 * SYNC_WORDS * (1 + MOST_BRANCHES) if model.threads > 1 else 0
        self._head = self.sync_at + _rounded(self.sync_bytes)

    def value(self, dim: Dimension) -> str:
        """A dimension in the call: a number, or a field of the layout."""
        fixed = self.fixed(dim)
        if fixed is not None:
            return number(fixed)
        if dim not in self._numbers:
            self._sizes.text(dim)
            self._numbers[dim] = f"at->number[{len(self._numbers)}]"
        return self._numbers[dim]

    def fixed(self, dim: Dimension) -> int | None:
        """The number that a dimension is in all calls; None if it depends on a size of the call."""
        return self._sizes.fixed(dim)

    def keep(self, nbytes: Dimension) -> str:
        """Where so many bytes lie behind the temporaries."""
        self._kept.append(nbytes)
        return f"at->kept[{len(self._kept) - 1}]"

    def text(self) -> str:
        """The layout's type and its function."""
        name, guard = self.model.interface.name, self.model.interface.guard
        fields = (
            ("place", len(self.lives), "of temporaries"),
            ("kept", len(self._kept), "of results that are copied in the end"),
            ("number", len(self._numbers), "sizes, and what is computed of them"),
        )
        rest = [*self._unmet(), *self._large(), *self._filled(), *self._places(), *self._behind()]
        lines = [*self._checked(), *(f"    {line}" for line in self._sizes.lines), *rest]
        return _LAYOUT.format(
            name=name,
            guard=guard,
            end=self.end,
            layout=f"layout{self.end}",
            fields="\n".join(f"    int64_t {field}[{count}]; /* {what} */" for field, count, what in fields if count),
            lines="\n".join(lines),
        )

    def _checked(self) -> list[str]:
        """The sizes themselves are no negative numbers, and not beyond what the arithmetic takes."""
        face = self.model.interface
        if not face.sizes:
            return ["    (void)sizes;"]
        lines = ["    if (sizes == NULL)", f"        return {face.guard}_NULL;"]
        for made in face.sizes.values():
            lines += [f"    if (sizes->{made} < 0 || sizes->{made} > LARGEST)", f"        return {face.guard}_SIZE;"]
        return lines

    def _unmet(self) -> list[str]:
        """The conditions on sizes."""
        lines, inside = [], dict(self.level.recipe.checked)
        for i, check in enumerate(self.model.interface.checks):
            left, right = (self._sizes.text(types.substitute(dim, inside)) for dim in (check.left, check.right))
            lines += [f"    if (!({left} {check.kind} {right}))", f"        return {FIRST_CHECK - i};"]
        return [*self._overflows(), *lines] if lines else []

    def _overflows(self) -> list[str]:
        return ["    if (wide)", f"        return {self.model.interface.guard}_SIZE;"]

    def _large(self) -> list[str]:
        """No array is larger than an address space."""
        face = self.model.interface
        buffers = [buffer.nbytes for buffer in self.level.layout.table.out_buffers]
        sizes = dict.fromkeys([*map(nbytes, [*face.inputs, *face.outputs]), *buffers])
        texts = [self._sizes.text(dim) for dim in sizes if self.fixed(dim) is None]
        lines = []
        for text in texts:
            lines += [f"    if ({text} > (int64_t)(PTRDIFF_MAX / 2))", f"        return {face.guard}_SIZE;"]
        return [*self._overflows(), *lines] if lines else []

    def _filled(self) -> list[str]:
        return [f"    {field} = {self._sizes.text(dim)};" for dim, field in self._numbers.items()]

    def _places(self) -> list[str]:
        """Where temporaries lie."""
        if all(self.fixed(life.nbytes) is not None for life in self.lives):
            offsets, total = assign(self.lives, lambda dim: self.fixed(dim) or 0)
            lines = [f"    at->place[{i}] = {number(self._head + offset)};" for i, offset in enumerate(offsets)]
            return [*lines, f"    at->bytes = {number(self._head + total)};"]
        order, others, starts = _together(self.lives)
        needs = [f"        need[{i}] = {self._sizes.text(life.nbytes)};" for i, life in enumerate(self.lives)]
        text = _PLACES.format(
            guard=self.model.interface.guard,
            count=len(self.lives),
            head=self._head,
            order=listed(order),
            others=listed(others or [0]),
            starts=listed(starts),
            needs="\n".join(needs),
        )
        return [*self._overflows(), *text.splitlines()]

    def _behind(self) -> list[str]:
        """Where results lie that are copied in the end."""
        lines = []
        for i, dim in enumerate(self._kept):
            lines += [f"    at->kept[{i}] = at->bytes;"]
            fixed = self.fixed(dim)
            if fixed is not None:
                lines += [f"    at->bytes = sum(at->bytes, {number(_rounded(fixed))}, &wide);"]
            else:
                lines += [f"    at->bytes = sum(at->bytes, {self._sizes.text(dim)} / 64 * 64 + 64, &wide);"]
        return lines


def nbytes(each: Array) -> Dimension:
    """The bytes of an array of the interface."""
    return types.product(each.shape) * each.dtype.itemsize


def listed(numbers: Iterable[int]) -> str:
    """Numbers as C lists them."""
    return ", ".join(map(str, numbers))


def _together(lives: Sequence[Lifetime]) -> tuple[list[int], list[int], list[int]]:
    """Temporaries in the order of their first use; those before each that are in use at the same time, one list behind
    the other; and where each of these lists begins."""
    order = sorted(range(len(lives)), key=lambda i: lives[i].first)
    others: list[int] = []
    starts = [0]
    for k, i in enumerate(order):
        others += [j for j in order[:k] if lives[i].meets(lives[j])]
        starts.append(len(others))
    return order, others, starts


def _rounded(count: int) -> int:
    return -(-count // ALIGNMENT) * ALIGNMENT
