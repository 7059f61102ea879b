"""What calls of LAPACK compute as Python source, for matrices that turn out to be small: one matrix in each lane.

A call of LAPACK takes longer than such a matrix. How large matrices are is not known here: loops go over their entries,
which lie on the stack. They are the formulas of `scanjit.rewrite.systems`, which writes matrices of known sizes out.
"""

from collections.abc import Callable, Sequence

from scanjit.codegen import square
from scanjit.codegen.lines import LOOK, indented
from scanjit.codegen.names import suffix
from scanjit.codegen.source import Parameters
from scanjit.kinds import kind_of
from scanjit.schedule.nests import LARGEST, LapackCall, Ref, most_beside
from scanjit.target import Target
from scanjit.types import Dimension

ROWS = LARGEST + 3
"""The most rows of a matrix: the result of `lu` has further ones."""


def small_source(call: LapackCall, target: Target, parameters: Parameters) -> tuple[str, list[str]] | None:
    """A condition, and the lines of a function that computes a call if it is true. None if it never is, or if there is
    only one matrix."""
    sizes = call.sizes_beside
    if sizes is None:
        return None
    lines = _Writer(call, target, parameters).lines()
    most = parameters.number(most_beside(call.result.shape[:-2]))
    return " and ".join(f"{parameters.number(n)} <= {most}" for n in dict.fromkeys(sizes)), lines


def _merged(shape: Sequence[Dimension], refs: Sequence[Ref]) -> list[tuple[Dimension, tuple[Dimension, ...]]]:
    """The axes of a batch, each with its steps in the arrays. Axes that lie behind each other in all arrays are one."""
    found: list[tuple[Dimension, tuple[Dimension, ...]]] = []
    for axis, size in enumerate(shape):
        steps = tuple(ref.strides[axis] for ref in refs)
        if found and all(before == step * size for before, step in zip(found[-1][1], steps, strict=True)):
            found[-1] = found[-1][0] * size, steps
        else:
            found.append((size, steps))
    return found


class _Writer:
    """Writes the lines of a call. The entries of a vector of matrices are vectors on the stack, one row behind the
    other: those of the first array begin at `e0`, those of the second one at `e1`."""

    def __init__(self, call: LapackCall, target: Target, parameters: Parameters) -> None:
        self.call, self.number = call, parameters.number
        self.refs = [ref for ref in call.places if len(ref.shape) > 1]
        self.written = [written for ref, written in call.arrays if len(ref.shape) > 1]
        self.bases = [parameters.address(ref.buffer, ref.offset) for ref in self.refs]
        dtype = self.refs[0].buffer.dtype
        self.size, self.lanes, self.name = dtype.itemsize, target.lanes(dtype.itemsize), kind_of(dtype).name
        self.kind, self.width = suffix(dtype, self.lanes), self.size * self.lanes
        self.n = self.number(call.result.shape[-1 if call.routine != "triangular_solve" else -2])

    def lines(self) -> list[str]:
        """The loops over the batch; the last axis is in lanes."""
        homes, inner = WRITERS[self.call.routine](self)
        *outer, (count, steps) = _merged(self.refs[0].shape[:-2], self.refs)
        lines, depth = list(homes), 0
        for k in range(len(self.refs)):
            lines += [f"e{k} = {self.home(ROWS)}", f"spare{k} = {self.home(ROWS)}"]
        for axis, (size, _) in enumerate(outer):
            lines.append("    " * depth + f"for b{axis} in range({self.number(size)}):")
            depth += 1
        body = [*LOOK, f"some = min({self.lanes}, {self.number(count)} - matrix)"]
        ends = []
        for k, (ref, base, step) in enumerate(zip(self.refs, self.bases, steps, strict=True)):
            moved = [f" + b{axis}*{self.number(of[k] * self.size)}" for axis, (_, of) in enumerate(outer)]
            rows, columns = ref.shape[-2:]
            entries, bytes_ = self.number(rows * columns), self.number(step * self.size)
            given = self.number(columns * columns) if self.call.routine == "lu" else entries  # the others are results
            here, there = f"m{k} + g*{bytes_} + i*{self.size}", f"spare{k} + g*step{k} + i*{self.size}"

            def copied(target: str, source: str, count: str) -> list[str]:
                return [
                    "    for g in range(some):",
                    f"        for i in range({count}):",
                    f"            store({target}, load_{self.name}x1({source}))",
                ]

            def turned(into: bool, count: str, k: int = k) -> list[str]:
                ends = f"rows{k}", f"e{k}", self.width
                return square.turned(self.name, self.size, self.lanes, count, *ends, into, f"step{k}")

            body += [
                f"m{k} = {base}{''.join(moved)} + matrix*{bytes_}",
                f"rows{k} = m{k}",
                f"step{k} = {bytes_}",
                f"if some < {self.lanes}:",
                f"    rows{k} = spare{k}",
                f"    step{k} = {entries}*{self.size}",
                f"    for i in range({entries}):",
                f"        store(spare{k} + i*{self.width}, {self.splat(0.0)})",
                *copied(there, here, given),
                *turned(True, given),
            ]
            if self.written[k]:
                ends += [*turned(False, entries), f"if some < {self.lanes}:", *copied(here, there, entries)]
        loop = f"for matrix in range(0, {self.number(count)}, {self.lanes}):"
        return [*lines, *indented([loop, *indented([*body, *inner, *ends])], depth)]

    # ---- text --------------------------------------------------------------------------------------------------------

    def home(self, rows: int) -> str:
        """The stack for some rows of vectors."""
        return f"stack({rows * LARGEST * self.width})"

    def get(self, k: int | str, i: str, j: str) -> str:
        """Entry (i, j) of an array, or of the rows at an address."""
        return f"load_{self.kind}({self.place(k, i, j)})"

    def put(self, k: int | str, i: str, j: str, value: str) -> str:
        """A line that gives an entry of an array a value."""
        return f"store({self.place(k, i, j)}, {value})"

    def place(self, k: int | str, i: str, j: str) -> str:
        """The address of an entry."""
        columns = self.n if isinstance(k, str) else self.number(self.refs[k].shape[-1])
        start = k if isinstance(k, str) else f"e{k}"
        return f"{start} + (({i})*{columns} + {j})*{self.width}"

    def splat(self, value: float) -> str:
        """A vector of equal numbers."""
        return f"splat_{self.kind}({value!r})"

    # ---- routines ----------------------------------------------------------------------------------------------------

    def lu(self) -> tuple[list[str], list[str]]:
        """Elimination with exchanges of columns."""
        n, place, one = self.n, self.get("places", "0", "{}"), self.splat(1.0)

        def entry(i: str, j: str) -> str:
            return self.get(0, i, j)

        def exchanged(row: str, value: str, before: Sequence[str] = ()) -> list[str]:
            """Lines that exchange two entries of a row. The entries behind column k get a value: `v` is what comes to
            their place, `u` what comes to column k."""
            return [
                f"old = {entry(row, 'k')}",
                "u = old",
                f"for j in range(k + 1, {n}):",
                f"    u = select(best == {place.format('j')}, {entry(row, 'j')}, u)",
                self.put(0, row, "k", "u"),
                *before,
                f"for j in range(k + 1, {n}):",
                f"    v = select(best == {place.format('j')}, old, {entry(row, 'j')})",
                f"    {self.put(0, row, 'j', value)}",
            ]

        homes = [
            f"places = {self.home(1)}",
            f"number = {self.splat(0.0)}",
            f"for i in range({n}):",
            f"    {self.put('places', '0', 'i', 'number')}",
            "    number = number + 1.0",
        ]
        return homes, [
            f"for i in range({n}):",
            f"    {self.put(0, n, 'i', place.format('i'))}",
            f"for k in range({n}):",
            f"    best = {place.format('k')}",
            f"    most = abs({entry('k', 'k')})",
            f"    for j in range(k + 1, {n}):",
            f"        x = abs({entry('k', 'j')})",
            "        larger = x > most",
            "        most = select(larger, x, most)",
            f"        best = select(larger, {place.format('j')}, best)",
            f"    sign = select(best == {place.format('k')}, {one}, {self.splat(-1.0)})",
            f"    {self.put(0, f'{n} + 2', 'k', 'sign')}",
            *indented(exchanged("k", "v / pivot", [f"pivot = select(u == 0.0, {one}, u)"])),  # then all are 0
            "    for i in range(k):",
            *indented(exchanged("i", "v"), 2),
            f"    for i in range(k + 1, {n}):",
            *indented(exchanged("i", f"fma(-u, {entry('k', 'j')}, v)"), 2),
            *indented(exchanged(n, "v")),
            f"for j in range({n}):",
            f"    source = {self.splat(0.0)}",
            f"    for i in range({n}):",
            f"        source = select({entry(n, 'i')} == {place.format('j')}, {place.format('i')}, source)",
            f"    {self.put(0, f'{n} + 1', 'j', 'source')}",
        ]

    def cholesky(self) -> tuple[list[str], list[str]]:
        """The factor in the lower triangle, zeros above. If there is no factor, the lower triangle is NaN."""
        n = self.n

        def entry(i: str, j: str) -> str:
            return self.get(0, i, j)

        return [], [
            f"positive = {self.splat(0.0)} == 0.0",
            f"for j in range({n}):",
            f"    for i in range(j, {n}):",
            f"        x = {entry('i', 'j')}",
            "        for k in range(j):",
            f"            x = fma(-{entry('i', 'k')}, {entry('j', 'k')}, x)",
            f"        {self.put(0, 'i', 'j', 'x')}",
            f"    x = {entry('j', 'j')}",
            "    positive = positive & (x > 0.0)",
            "    root = sqrt(x)",
            f"    {self.put(0, 'j', 'j', 'root')}",
            f"    for i in range(j + 1, {n}):",
            f"        {self.put(0, 'i', 'j', entry('i', 'j') + ' / root')}",
            f"for i in range({n}):",
            "    for j in range(i + 1):",
            f"        {self.put(0, 'i', 'j', 'select(positive, ' + entry('i', 'j') + ', nan)')}",
            f"    for j in range(i + 1, {n}):",
            f"        {self.put(0, 'i', 'j', self.splat(0.0))}",
        ]

    def triangular_solve(self) -> tuple[list[str], list[str]]:
        """Substitution. The result is NaN if there is a zero on the diagonal."""
        n, columns = self.n, self.number(self.refs[1].shape[-1])
        lower, trans, unit = (self.call.flags[name] for name in ("lower", "trans", "unit"))
        forward, x = lower != trans, self.get(1, "i", "j")
        i, done = ("back", "range(i)") if forward else (f"{n} - 1 - back", f"range(i + 1, {n})")
        factor = self.get(0, *("ki" if trans else "ik"))
        return [], [
            f"for j in range({columns}):",
            f"    for back in range({n}):",
            f"        i = {i}",
            f"        x = {x}",
            f"        for k in {done}:",
            f"            x = fma(-{factor}, {self.get(1, 'k', 'j')}, x)",
            *([] if unit else [f"        x = x / {self.get(0, 'i', 'i')}"]),
            f"        {self.put(1, 'i', 'j', 'x')}",
            *([] if unit else self._unless_singular(n, columns)),
        ]

    def _unless_singular(self, n: str, columns: str) -> list[str]:
        """Lines that make solutions NaN where there is a zero on the diagonal."""
        return [
            f"regular = {self.splat(0.0)} == 0.0",
            f"for i in range({n}):",
            f"    regular = regular & ({self.get(0, 'i', 'i')} != 0.0)",
            "if not all_of(regular):",
            f"    for i in range({n}):",
            f"        for j in range({columns}):",
            f"            {self.put(1, 'i', 'j', 'select(regular, ' + self.get(1, 'i', 'j') + ', nan)')}",
        ]


WRITERS: dict[str, Callable[[_Writer], tuple[list[str], list[str]]]] = {
    "cholesky": _Writer.cholesky,
    "lu": _Writer.lu,
    "triangular_solve": _Writer.triangular_solve,
}
"""For each routine, the function that returns two lists of lines: those that come once, and those for a vector of
matrices."""
