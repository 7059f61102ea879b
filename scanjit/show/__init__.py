"""Graphs as people read them: a formula (`pprint`), a listing, a drawing; and documents, which notebooks show."""

from scanjit.ir import Node
from scanjit.show.document import Document, Table
from scanjit.show.drawing import GraphDrawing, svg
from scanjit.show.formula import formula_inside, pprint
from scanjit.show.listing import listing

setattr(Node, "_repr_svg_", svg)  # noqa: B010 - to a type checker, a node has no such attribute

__all__ = ["Document", "GraphDrawing", "Table", "formula_inside", "listing", "pprint", "svg"]
