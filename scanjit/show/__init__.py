"""Graphs as people read them: `pprint` (a formula), `listing` (one line a node), and a drawing in notebooks."""

from scanjit.ir import Node
from scanjit.show.drawing import document, svg
from scanjit.show.formula import formula_inside, pprint
from scanjit.show.listing import listing

setattr(Node, "_repr_svg_", svg)  # noqa: B010 - to a type checker, a node has no such attribute

__all__ = ["document", "formula_inside", "listing", "pprint", "svg"]
