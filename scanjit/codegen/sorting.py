"""Sorting rows, as Python source: their elements in order, or the places of these, or only some of either.

Elements become words (`codegen.words`). Short rows are sorted by networks (`codegen.network`): as many rows as a vector
has lanes side by side, and single rows in consecutive words. Longer rows are sorted by quicksort (`codegen.quicksort`).
If only some entries are wanted, `codegen.selection` first leaves most words out.
"""

from scanjit.codegen.lines import LOOK, indented, loaded, stored, stretches, vectors
from scanjit.codegen.network import across, along, block
from scanjit.codegen.quicksort import quicksort
from scanjit.codegen.selection import narrowed
from scanjit.codegen.source import Parameters, Source
from scanjit.codegen.square import turned
from scanjit.codegen.words import MOST_BRIEF, Words
from scanjit.ops.passes import Number
from scanjit.schedule.nests import ACROSS, ALONG, MOST_PACKED, SORTED, TOGETHER, NestLoop, Order, Tile
from scanjit.target import Target
from scanjit.types import Dimension, product

SHORT = 3
"""Rows of more vectors than this are sorted one by one, unless their elements lie far from each other. Rows that no
network sorts may have one vector more."""
NEAR = 256
"""Rows of more elements than this are not sorted side by side, unless their places lie beside their words."""
FEW = 16
"""Ranks that are nearer to each other than this part of a row are found together."""


def order_source(statement: Order, target: Target) -> Source:
    """The source of a function that sorts the rows of some bands."""
    return _OrderWriter(statement, target).source()


class _OrderWriter:
    """Writes the lines of a function."""

    def __init__(self, statement: Order, target: Target) -> None:
        self.statement = statement
        self.parameters = Parameters()
        self.dtype, self.with_places = statement.values.buffer.dtype, statement.finds_places
        self.words = Words(self.dtype, self.with_places, self.with_places and self.dtype.itemsize == 8)
        self.lanes = target.lanes(self.words.size)
        self.length = statement.values.shape[-1]
        self.brief = self.words.beside and self.words.kind.floating and self._may_be(2, MOST_BRIEF)
        """Whether short rows are sorted by brief words first."""
        self.together = "" if statement.rows_apart else self.parameters.number(statement.together)
        """How many rows are turned together."""
        self.most_along = SORTED if statement.ranks else ALONG
        """Single rows of at most this many elements are sorted by a network."""
        self.most_across = SORTED if statement.whole else ACROSS if self.words.beside else NEAR
        """Rows of at most this many elements are sorted side by side."""
        if statement.rows_apart:
            self.most_across = (SHORT if self.brief or isinstance(self.length, int) else SHORT + 1) * self.lanes
        self.n = self.parameters.number(self.length)
        self.bands = self.parameters.number(statement.pieces)
        self.rows = self.parameters.number(product(statement.values.shape[:-1]))
        self.step = self.parameters.number(statement.step)
        self.values, self.result, self.spare, *ranks = (
            self.parameters.address(ref.buffer, ref.offset) for ref, _ in statement.arrays
        )
        self.ranks = ranks[0] if ranks else ""
        self.some = bool(ranks) and not statement.whole
        """Whether only some entries of each row are put into the result."""
        self.many = ""
        """How many entries of each row are wanted."""
        if statement.ranks:
            many, known = statement.ranks.shape[-1], isinstance(self.length, int)
            self.many = self.parameters.number(many) if known else self.parameters.number_of("many", many)
        self.alike = ""
        """How many neighbouring rows have the same ranks, if not all do."""
        if statement.ranks and len(statement.ranks.shape) > 1:
            alike = product(statement.values.shape[len(statement.ranks.shape) - 1 : -1])
            self.alike = self.parameters.number(alike)

    def source(self) -> Source:
        """The loop over bands, and for each band the vectors of rows, then the rows that are left."""
        bands, blocks = self.bands, self.parameters.number(self.statement.blocks)
        block = self.statement.block
        lines = [
            "for band in range(begin, end):",
            f"    row = {blocks}*band//{bands}*{block}",
            f"    stop = min({blocks}*(band + 1)//{bands}*{block}, {self.rows})",
        ]
        if self.some and self._may_be(0, 0):
            lines += indented(self._zeros())
        if self._may_be(1, self.most_across) and self.lanes > 1:
            lines += indented(self._rows_in_vectors())
        one = [*LOOK, *self._row(), "row += 1"]
        lines += ["    while row < stop:", *indented(one if self.statement.rows_apart else self._turned_rows(one), 2)]
        tile = Tile(split=NestLoop(self.statement.pieces))
        more = ["begin", "end", "line"]
        return self.parameters.source(self.statement.title, indented(lines), more, tile=tile)

    def _zeros(self) -> list[str]:
        """Put zeros into the result for rows without elements: none of them has a rank."""
        target = f"row*{self.many} + j" if self.statement.rows_apart else f"row + j*{self.step}"
        result = self.words.result
        store = f"store({self.result} + ({target})*{result.size}, splat_{result.name}x1(0))"
        return [
            f"while row < stop and {self.n} == 0:",
            f"    for j in range({self.many}):",
            f"        {store}",
            "    row += 1",
        ]

    # ---- rows side by side -------------------------------------------------------------------------------------------

    def _rows_in_vectors(self) -> list[str]:
        """Sort the rows of a band a vector of rows at a time, as long as there are enough rows for one."""
        lanes, known = self.lanes, isinstance(self.length, int)
        many = self.length if known else self.most_across
        homes = [f"words = stack({many * lanes * self.words.size})"]
        if self.words.beside:
            homes.append(f"places = stack({many * lanes * 8})")
        sizes = [self.words.stored.size, self.words.result.size]
        homes.append(f"moved = stack({many * lanes * max(sizes)})")
        block = [*LOOK, *self._brought(), *across(self.words, lanes, self.n), *self._taken(), f"row += {lanes}"]
        condition = f"while row + {lanes} <= stop" + ("" if known else f" and {self.n} <= {self.most_across}") + ":"
        return [*homes, condition, *indented(block)]

    def _brought(self) -> list[str]:
        """Make the words of `lanes` rows. Vector i has element i of each row."""
        lanes, size, name = self.lanes, self.words.stored.size, self._name(self.words.stored.name)
        kept = [f"store({word}s + i*{lanes * self.words.size}, {word})" for word in self.words.names]
        made = [*self.words.made(lanes, self._place(f"splat_i64x{lanes}(i)")), *kept]
        if not self.statement.rows_apart:
            read = f"x = load_{name}({self.values} + (row + i*{self.step})*{size})"
            return [f"for i in range({self.n}):", *indented([read, *made])]
        lines = [f"first = {self.values} + row*{self.n}*{size}"]
        lines += self._turned(self.words.stored.name, size, into=True)
        return [*lines, f"for i in range({self.n}):", f"    x = load_{name}(moved + i*{lanes * size})", *indented(made)]

    def _taken(self) -> list[str]:
        """Put the wanted results of `lanes` rows into the result."""
        lanes, size = self.lanes, self.words.result.size
        if self.some and self.alike:
            target = f"(row + g)*{self.many}" if self.statement.rows_apart else "row + g"
            one = [f"target = {self.result} + ({target})*{size}"]
            one += self._taken_ranks(self.words, f"{self._rank('(row + g)')}*{lanes} + g")
            return [f"for g in range({lanes}):", *indented(one)]
        place = "rank" if self.some else "i"
        loads = [self.words.load(f"{h}s + {place}*{lanes * self.words.size}", lanes, h) for h in self.words.names]
        made = [*loads, *self.words.unmade(lanes)]
        if self.some:
            store = f"store({self.result} + (row + j*{self.step})*{size}, y)"
            if self.statement.rows_apart:
                at = f"{self.result} + (row*{self.many} + j)*{size}"
                store = f"store_strided({at}, {self.many}*{size}, y, head_x{lanes}({lanes}))"
            return self._ranked([f"rank = {self._rank()}", *made, store])
        if not self.statement.rows_apart:
            return [
                f"for i in range({self.n}):",
                *indented([*made, f"store({self.result} + (row + i*{self.step})*{size}, y)"]),
            ]
        lines = [f"for i in range({self.n}):", *indented([*made, f"store(moved + i*{lanes * size}, y)"])]
        lines.append(f"first = {self.result} + row*{self.n}*{size}")
        return lines + self._turned(self.words.result.name, size, into=False)

    def _turned(self, kind: str, size: int, into: bool) -> list[str]:
        """Copy `lanes` rows into vectors that have one element of each row, or back."""
        n: Number = self.length if isinstance(self.length, int) else self.n
        return turned(kind, size, self.lanes, n, "first", "moved", self.lanes * size, into)

    # ---- rows that are turned ----------------------------------------------------------------------------------------

    def _turned_rows(self, one: list[str]) -> list[str]:
        """Copy some rows to memory in which each lies in consecutive elements, do what `one` says with each, and copy
        them back, unless only some entries are taken."""
        stored, result = self.words.stored, self.words.result
        into = self._copied(stored.name, stored.size, self.values, into=True)
        back = [] if self.some else self._copied(result.name, result.size, self.result, into=False)
        return [
            f"turned = {self.spare} + band*{self.together}*{self.n}*8",
            "group = row",
            f"held = min({TOGETHER}, stop - row)",
            *into,
            "while row < group + held:",
            *indented(one),
            *back,
        ]

    def _copied(self, kind: str, size: int, array: str, into: bool) -> list[str]:
        """Copy the `held` rows of an array from `group` on to the memory `turned`, or back."""
        lanes, step = TOGETHER, f"({self.step}*{size})"
        n: Number = self.length if isinstance(self.length, int) else self.n
        block = turned(kind, size, lanes, n, "turned", f"{array} + group*{size}", step, not into, f"({self.n}*8)")
        near, far = f"turned + g*{self.n}*8 + i*{size}", f"{array} + (group + g)*{size} + i*{step}"
        copied = f"store_strided({far}, {step}, load_masked_{kind}x{lanes}({near}, copied), copied)"
        if into:
            copied = f"store_masked({near}, load_strided_{kind}x{lanes}({far}, {step}, copied), copied)"
        single = stretches(self.n, [f"copied = head_x{lanes}({self.n} - i)", copied], lanes)
        return [f"if held == {lanes}:", *indented(block), "else:", "    for g in range(held):", *indented(single, 2)]

    # ---- one row -----------------------------------------------------------------------------------------------------

    def _row(self) -> list[str]:
        """Sort the row `row`."""
        size, result = self.words.stored.size, self.words.result.size
        many = self.many if self.some else self.n
        lines = [f"first = {self.values} + row*{self.n}*{size}", f"target = {self.result} + row*{many}*{result}"]
        if not self.statement.rows_apart:
            target = f"{self.result} + row*{result}" if self.some else "first"
            lines = [f"first = turned + (row - group)*{self.n}*8", f"target = {target}"]
        if self.brief:
            return [*lines, *self._by_brief_words(), "if done == 0:", *indented(self._by_whole_words())]
        return [*lines, *self._by_whole_words()]

    def _by_whole_words(self) -> list[str]:
        """Sort a row by words that are always in order."""
        ways: list[tuple[str, list[str]]] = []
        most = self.most_along
        if isinstance(self.length, int) and self.length <= most:
            return [*self._by_network(self.words, self.length), *self._taken_from(self.words)]
        if self.ranks and not self.brief and self._may_be(0, most):
            ways.append((f"{self.n} <= {most}", [*self._by_network(self.words, most), *self._taken_from(self.words)]))
        if self._may_be(0, MOST_PACKED - 1):
            ways.append((f"{self.n} < {MOST_PACKED}", self._by_splits(self.words)))
        if self.with_places and not self.words.beside and self._may_be(MOST_PACKED, None):
            ways.append(("", self._by_splits(Words(self.dtype, True, True))))
        elif self._may_be(MOST_PACKED, None):
            ways = [*ways[:-1], ("", self._by_splits(self.words))]
        lines: list[str] = []
        for i, (condition, way) in enumerate(ways):
            if i == len(ways) - 1:
                lines += ["else:", *indented(way)] if i else way
            else:
                lines += [f"{'elif' if i else 'if'} {condition}:", *indented(way)]
        return lines

    def _by_brief_words(self) -> list[str]:
        """Sort a short row by words that are brief. `done` is 1 if this gave the right order, as it nearly always
        does."""
        lanes, words = self.lanes, Words(self.dtype, True, False, brief=True)
        sorting = [*self._by_network(words, MOST_BRIEF), "done = 1"]
        sorting += vectors(f"({self.n} - 1)", self._compared, lanes)
        sorting += ["if done > 0:", *indented(self._taken_from(words))]
        if isinstance(self.length, int):
            return sorting
        return ["done = 0", f"if {self.n} > 1 and {self.n} <= {MOST_BRIEF}:", *indented(sorting)]

    def _compared(self, inside: str) -> list[str]:
        """Compare each element of a vector with the one behind it, where their brief words do not say which comes
        first."""
        lanes = self.lanes
        inside = inside or f"head_x{lanes}({lanes})"

        def element(word: str) -> list[str]:
            offsets = f"{self._place(f'({word} & {MOST_BRIEF - 1})')}*splat_i64x{lanes}(8)"
            return [f"x = gather_f64x{lanes}(first, {offsets}, {inside})", *self.words.made(lanes, "place")]

        return [
            f"before = load_masked_i64x{lanes}(words + i*8, {inside})",
            f"behind = load_masked_i64x{lanes}(words + i*8 + 8, {inside})",
            f"place = (before ^ behind) & {-MOST_BRIEF}",
            f"if any_of((place == 0) & {inside}):",
            *indented(element("before")),
            "    before = word",
            *indented(element("behind")),
            f"    if any_of((word < before) & {inside}):",
            "        done = 0",
        ]

    def _by_network(self, words: Words, most: int) -> list[str]:
        """Sort the words of a row of at most so many elements."""
        lanes = self.lanes
        many = block(words, lanes, most)
        room = -(-most // (many * lanes)) * many * lanes
        lines = [f"words = stack({room * words.size})"]
        lines += [f"places = stack({room * 8})"] if words.beside else []
        return [*lines, *self._made_row(words), *along(words, lanes, self.n, many)]

    def _taken_from(self, words: Words) -> list[str]:
        """Put the wanted results of a sorted row into the result."""
        return self._taken_ranks(words, self._rank()) if self.some else self._taken_row(words)

    def _by_splits(self, words: Words) -> list[str]:
        """Sort by quicksort, with the memory of this band."""
        size = words.size
        homes = 4 if words.beside else 2
        room = f"{homes}*{self.n}*{size}"
        if self.ranks:
            room = f"({room} + 8*{self.many})"
        start = self.spare if self.statement.rows_apart else f"{self.spare} + {self.bands}*{self.together}*{self.n}*8"
        lines = [f"words = {start} + band*{room}", f"others = words + {self.n}*{size}"]
        if words.beside:
            lines.append(f"places = words + 2*{self.n}*8")
        if self.ranks:
            lines.append(f"asked = words + {homes}*{self.n}*{size}")
        if self.some:
            return self._by_selection(words, lines)
        lines += self._made_row(words, exact=True)
        if self.ranks:
            lines += [f"for j in range({self.many}):", f"    store_i64(asked + j*8, {self._rank()})"]
        wanted = ("0", self.many) if self.ranks else None
        return [*lines, *quicksort(words, self.lanes, self.n, wanted, bool(self.ranks)), *self._taken_row(words)]

    def _by_selection(self, words: Words, homes: list[str]) -> list[str]:
        """Find ranks. Those of which each is near the one before it are found together."""
        asked = [f"rank = {self._rank()}", "store_i64(asked + j*8, rank)"]
        here, before = "load_i64(asked + till*8)", "load_i64(asked + (till - 1)*8)"
        near = f"{FEW}*max({here} - {before}, {before} - {here}) <= {self.n}"
        found = [
            "till = since + 1",
            f"while till < {self.many} and {near}:",
            "    till += 1",
            *self._narrowed(words),
            *quicksort(words, self.lanes, "remaining", ("since", "till")),
            *self._taken_ranks(words, "load_i64(asked + j*8)", "since, till"),
            "since = till",
        ]
        lines = [*homes, f"for j in range({self.many}):", *indented(asked), "since = 0"]
        return [*lines, f"while since < {self.many}:", *indented([*homes, *found])]

    def _narrowed(self, words: Words) -> list[str]:
        """Make the words of a row; of a long one, those that the ranks may be."""
        row = self._made_row(words, exact=True)
        if not self._may_be(SORTED + 1, None):
            return [f"remaining = {self.n}", *row]
        lanes, size, kind = self.lanes, words.stored.size, self._name(words.stored.name)
        apart = f"stride*{size}"
        drawn = [f"x = load_strided_{kind}(first + i*{apart}, {apart}, head_x{lanes}({lanes}))"]
        drawn += words.made(lanes, self._place(f"(iota_i64x{lanes}(i)*stride)"))

        def read(inside: str) -> list[str]:
            return self._read_words(words, inside, exact=True)

        return narrowed(words, lanes, self.n, drawn, read, row)

    def _made_row(self, words: Words, exact: bool = False) -> list[str]:
        """Make the words of a row. Unless it must be `exact`, the last vector is filled up with the largest word."""

        def part(inside: str) -> list[str]:
            lines = self._read_words(words, inside, exact)
            for name in words.names:
                at = f"{name}s + i*{words.size}"
                filled = f"select({inside}, {name}, {words.most})" if inside else name
                lines.append(stored(at, name, inside) if exact else stored(at, filled))
            return lines

        return vectors(self.n, part, self.lanes)

    def _taken_row(self, words: Words) -> list[str]:
        """Put the wanted results of a row into the result."""
        lanes, size = self.lanes, words.result.size
        kind = f"{words.kept.name}x{lanes}"

        def part(inside: str) -> list[str]:
            loads = [f"{name} = {loaded(kind, f'{name}s + i*{words.size}', inside)}" for name in words.names]
            return [*loads, *words.unmade(lanes), stored(f"target + i*{size}", "y", inside)]

        return vectors(self.n, part, lanes)

    def _taken_ranks(self, words: Words, rank: str, some: str = "") -> list[str]:
        """Put the wanted entries of a sorted row into the result."""
        one = f"head_x{self.lanes}(1)"
        loads = [
            f"{h} = load_masked_{self._name(words.kept.name)}({h}s + rank*{words.size}, {one})" for h in words.names
        ]
        stored = f"store_masked(target + j*{self.step}*{words.result.size}, y, {one})"
        return self._ranked([f"rank = {rank}", *loads, *words.unmade(self.lanes), stored], some)

    def _ranked(self, lines: list[str], some: str = "") -> list[str]:
        """The loop over all wanted ranks, or over some of them."""
        return [f"for j in range({some or self.many}):", *indented(lines)]

    def _rank(self, row: str = "row") -> str:
        """The given rank number j of a row, moved into the row."""
        at = f"({row}//{self.alike}*{self.many} + j)" if self.alike else "j"
        return f"min(max(load_i64({self.ranks} + {at}*8), 0), {self.n} - 1)"

    def _place(self, index: str) -> str:
        """The place of the element with an index, or the index of the element at a place: both are counted from the
        other end if rows are flipped."""
        return f"(splat_i64x{self.lanes}({self.n} - 1) - {index})" if self.statement.flipped else index

    def _read_words(self, words: Words, inside: str, exact: bool) -> list[str]:
        """Read a vector of the row, and make its words. If `inside` names a mask, only its lanes are read. Words whose
        places lie beside them are read in order of their places, also backwards, if they are to be `exact`: quicksort
        keeps equal words in that order."""
        lanes, size, name = self.lanes, words.stored.size, self._name(words.stored.name)
        read, places = loaded(name, f"first + i*{size}", inside), self._place(f"iota_i64x{lanes}(i)")
        if exact and words.beside and self.statement.flipped:
            places, some = f"iota_i64x{lanes}(i)", inside or f"head_x{lanes}({lanes})"
            read = f"load_strided_{name}(first + ({self.n} - 1 - i)*{size}, -{size}, {some})"
        return [f"x = {read}", *words.made(lanes, places)]

    # ---- both --------------------------------------------------------------------------------------------------------

    def _name(self, kind: str) -> str:
        return f"{kind}x{self.lanes}"

    def _may_be(self, low: int, high: int | None) -> bool:
        """Whether rows may have from `low` to `high` elements."""
        n: Dimension = self.length
        return not isinstance(n, int) or (low <= n and (high is None or n <= high))
