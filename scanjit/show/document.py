"""Documents: one tree of lines, tables and drawings gives a text, and a page that folds in notebooks."""

import html
import re
from collections.abc import Collection, Sequence
from typing import Any, Protocol, Self

from scanjit.records import record
from scanjit.show.identifiers import writable

_NUMBER = re.compile(r"[-+]?(\d|nan|inf)")
_BLOCK = "margin:0;padding:0;border:0;background:none;color:inherit;white-space:pre-wrap"
_CELL = "padding:0 0.5em;border:0;background:none;color:inherit"


class Drawing(Protocol):
    """A drawing in a notebook, such as that of an expression. It has no text."""

    def _repr_svg_(self) -> str: ...


@record(eq=True)
class Table:
    """A table: print it, or make it part of a `Document`. Columns of numbers are aligned at their right end, others at
    their left.

    Attributes
    ----------
    columns : the titles of the columns.
    rows : the cells of each row, as texts.

    Examples
    --------
    >>> import scanjit as sj
    >>> print(sj.show.Table(("ms", "loop"), (("0.5", "forward"), ("12.0", "backward"))))
      ms  loop
     0.5  forward
    12.0  backward
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        rows, numbers = _cells(self)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(map(_padded, row, widths, numbers)).rstrip() for row in rows)


class Document(str):
    """A head, and below it lines, tables, drawings and further documents. It is its own text: print it, or search it.
    Notebooks show it as HTML in which each document folds.

    Parameters
    ----------
    head : str
        Its first line.
    *parts : str, Table, Document, or anything with `_repr_svg_`
        What stands below the head, in this order. The text leaves drawings out.
    folded : bool
        Whether notebooks show only the head at first.

    Attributes
    ----------
    head, parts, folded : as given.

    Examples
    --------
    Objects of your own, in notebooks:

    >>> import scanjit as sj
    >>> class Fit:
    ...     def __init__(self, loss, rates):
    ...         self.loss, self.rates = loss, rates
    ...
    ...     def _repr_mimebundle_(self, include=None, exclude=None):
    ...         rates = sj.show.Document("rates", *map(str, self.rates), folded=True)
    ...         return sj.show.Document(f"fit, loss {self.loss}", rates).forms(include, exclude)
    >>> print(Fit(0.1, [2.0, 3.0])._repr_mimebundle_()["text/plain"])
    fit, loss 0.1:
      rates:
        2.0
        3.0
    """

    head: str
    parts: tuple[str | Table | Drawing, ...]
    folded: bool

    def __new__(cls, head: str, *parts: str | Table | Drawing, folded: bool = False) -> Self:
        below = [f"  {line}".rstrip() for part in parts for line in _lines(part)]
        made = super().__new__(cls, "\n".join([_one_line(head) + ":" * bool(below), *below]))
        made.head, made.parts, made.folded = head, parts, folded
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, bool]]:
        return (self.head, *self.parts), {"folded": self.folded}

    def __repr__(self) -> str:
        return str(self)

    def html(self) -> str:
        """The document as HTML without scripts and external files. Colours are those of the page around it.

        Examples
        --------
        >>> import scanjit as sj
        >>> sj.show.Document("a < b").html()
        '<div><code>a &lt; b</code></div>'
        """
        head = f"<code>{html.escape(_one_line(self.head))}</code>"
        if not self.parts:
            return f"<div>{head}</div>"
        below, opened = "".join(map(_html, self.parts)), "" if self.folded else ' open=""'
        return (
            f"<details{opened}><summary>{head}</summary>"
            f'<div style="margin-left:1.5em;overflow-x:auto">{below}</div></details>'
        )

    def forms(self, include: Collection[str] | None = None, exclude: Collection[str] | None = None) -> dict[str, str]:
        """The document as text and as HTML, for the method `_repr_mimebundle_` of objects, which notebooks call.

        Parameters
        ----------
        include, exclude : names of formats, optional
            What notebooks ask for and do not want: "text/plain", "text/html". By default both are given.

        Examples
        --------
        >>> import scanjit as sj
        >>> sj.show.Document("a < b").forms(exclude=["text/html"])
        {'text/plain': 'a < b'}
        """
        forms = {"text/plain": str(self), "text/html": self.html()}
        return {
            name: text for name, text in forms.items() if name in (include or forms) and name not in (exclude or ())
        }

    _repr_mimebundle_ = forms


def _one_line(text: str) -> str:
    return writable(" ".join(text.splitlines()))


def _lines(part: str | Table | Drawing) -> list[str]:
    """A part as lines of text: none of a drawing, or of a document with nothing but drawings."""
    if not isinstance(part, str | Table) or (isinstance(part, Document) and part.parts and "\n" not in part):
        return []
    return [writable(line) for line in str(part).splitlines()]


def _cells(table: Table) -> tuple[list[list[str]], list[bool]]:
    """The titles and the rows, each cell in one line; and whether each column is of numbers."""
    written = [[_one_line(cell) for cell in row] for row in (table.columns, *table.rows)]
    columns = zip(*written, strict=True)
    return written, [all(_NUMBER.match(cell) for cell in cells if cell) for _, *cells in columns]


def _padded(cell: str, width: int, number: bool) -> str:
    return cell.rjust(width) if number else cell.ljust(width)


def _html(part: str | Table | Drawing) -> str:
    """A part as HTML."""
    if isinstance(part, Document):
        return part.html()
    if isinstance(part, str):
        return f'<pre style="{_BLOCK}">{html.escape(writable(part))}</pre>'
    if not isinstance(part, Table):
        return part._repr_svg_()
    (titles, *rows), numbers = _cells(part)
    head = _row("th", titles, numbers, ";border-bottom:1px solid currentColor")
    body = "".join(_row("td", row, numbers) for row in rows)
    return f'<table style="border-collapse:collapse;color:inherit">{head}{body}</table>'


def _row(tag: str, cells: Sequence[str], numbers: Sequence[bool], style: str = "") -> str:
    """A row of a table as HTML."""
    sides = ["right" if number else "left" for number in numbers]
    shown = (
        f'<{tag} style="{_CELL}{style};text-align:{side}">{html.escape(cell)}</{tag}>'
        for cell, side in zip(cells, sides, strict=True)
    )
    return f"<tr>{''.join(shown)}</tr>"
