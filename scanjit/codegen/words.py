"""The integers that elements become while they are sorted, as Python source.

Each element becomes an integer, its *word*, so that all words have a total order. NaN has the largest word. If places
are wanted, no two words are equal: -0.0 has the key of 0.0, and behind the key comes the place. Every way to sort such
words gives the same stable order. A key of less than 64 bits is the upper half of a word, and its place the lower half.
A key of 64 bits has its place in a second word beside it. Rows of few such elements are first sorted by words in which
the place takes the last bits of the key (`Words.brief`), which are in order unless two keys differ in these bits alone.
"""

from scanjit.kinds import KINDS, Kind, kind_of
from scanjit.signatures import DType

MOST_BRIEF = 256
"""The most elements of a row whose places fit into the last bits of words."""


class Words:
    """The words of elements of a dtype, sorted by value alone, or with their places: `beside` them, or, if they are
    `brief`, in their last bits."""

    def __init__(self, dtype: DType, with_places: bool, beside: bool, brief: bool = False) -> None:
        self.kind = kind_of(dtype)
        self.stored: Kind = KINDS[self.kind.moved]
        self.with_places, self.beside, self.brief = with_places, beside, brief
        wide = with_places or self.stored.size == 8
        self.kept = KINDS["i64" if wide else "i32"]
        """The kind that a word is kept as."""
        self.size = self.kept.size
        self.result: Kind = KINDS["i64"] if with_places else self.stored
        self.most = 2 ** (8 * self.size - 1) - 1
        """The largest word."""

    @property
    def names(self) -> tuple[str, ...]:
        """The variables that hold the words of one vector."""
        return ("word", "place") if self.beside else ("word",)

    def load(self, address: str, lanes: int, name: str = "word") -> str:
        """A vector of words in memory."""
        return f"{name} = load_{self.kept.name}x{lanes}({address})"

    def made(self, lanes: int, place: str) -> list[str]:
        """Compute the words of `x`, elements as they are stored. `place` is the text of their places (int64)."""
        key = KINDS[f"i{self.kind.bits}"] if self.kind.floating else self.stored
        lines = ["key = x"]
        if self.kind.floating:
            most = 2 ** (key.bits - 1) - 1
            turned = f"{-most - 1} - key" if self.with_places else f"key ^ {most}"
            lines = [
                f"key = bitcast_{key.name}x{lanes}(x)",
                f"key = select(key < 0, {turned}, key)",  # a sign and a magnitude become a negative number
                f"key = select(x != x, {most}, key)",
            ]
        lines.append("word = key" if key is self.kept else f"word = cast_{self.kept.name}x{lanes}(key)")
        if self.brief:
            lines.append(f"word = (word & {-MOST_BRIEF}) | {place}")
        elif self.with_places:
            lines.append(f"place = {place}" if self.beside else f"word = (word << 32) | {place}")
        return lines

    def unmade(self, lanes: int) -> list[str]:
        """Compute `y` from the words of a vector: the elements, or their places."""
        if self.with_places:
            last = MOST_BRIEF - 1 if self.brief else 4294967295
            return ["y = place" if self.beside else f"y = word & {last}"]
        if self.kind.floating:
            most = 2 ** (self.kind.bits - 1) - 1
            return [f"y = bitcast_{self.kind.name}x{lanes}(select(word < 0, word ^ {most}, word))"]
        return ["y = word" if self.stored is self.kept else f"y = cast_{self.stored.name}x{lanes}(word)"]
