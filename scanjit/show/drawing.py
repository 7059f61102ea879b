"""A graph as a drawing (SVG): for notebooks. The layout is our own, small and without dependencies."""

import html
from collections.abc import Sequence
from typing import Any

from scanjit import ir
from scanjit.ir import CONSTANT, INPUT, PART, SHARED, SIZE, Node
from scanjit.ops.scan import SCAN
from scanjit.records import record
from scanjit.show.identifiers import writable
from scanjit.show.subject import number, origin_name, subject

_MOST_BOXES = 60
_ROW, _BOX, _GAP, _LETTER = 64.0, 36.0, 16.0, 6.6
_FILLS = {INPUT: "#dbe9ff", SHARED: "#e4dbff", CONSTANT: "#f3f3f3", SIZE: "#f3f3f3", SCAN: "#ffe9b8"}

Box = tuple[float, float, float]
"""The centre (x, y) and the width of a node's box."""


def svg(x: Any) -> str:
    """A drawing of a graph: each node a box below those of its arguments. Of a large graph, only the nodes nearest to
    the results are drawn."""
    _, roots, updates = subject(x)
    shown, hidden = _nearest([*roots, *(node for _, node in updates)])
    boxes, width, height = _layout(shown)
    top = 24 if hidden else 0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height + top:.0f}" '
        f'font-family="monospace" font-size="11" text-anchor="middle">'
    ]
    if hidden:
        note = f"... {hidden} more node{'s' if hidden > 1 else ''}"
        parts.append(f'<text x="{width / 2:.1f}" y="16" fill="#888">{note}</text>')
    parts.append(f'<g transform="translate(0,{top})">')
    for node in shown:
        parts += [_line(boxes[arg], boxes[node]) for arg in node.args if arg in boxes]
    parts += [_box(node, *boxes[node]) for node in shown]
    return "".join(parts) + "</g></svg>"


def _nearest(roots: Sequence[Node]) -> tuple[list[Node], int]:
    """The nodes nearest to the roots, arguments first, and the number of nodes left out."""
    kept = dict.fromkeys(roots)
    queue = list(kept)
    for node in queue:  # it grows meanwhile: breadth first
        for arg in node.args:
            if arg not in kept and len(kept) < _MOST_BOXES:
                kept[arg] = None
                queue.append(arg)
    order = ir.walk(roots)
    return [node for node in order if node in kept], len(order) - len(kept)


def _layout(nodes: Sequence[Node]) -> tuple[dict[Node, Box], float, float]:
    """The place of each box, and the width and height of the drawing. A box is in the layer below all of its arguments.
    Within a layer, boxes are sorted by the places of their arguments."""
    depth: dict[Node, int] = {}
    for node in nodes:
        depth[node] = 1 + max((depth[arg] for arg in node.args if arg in depth), default=-1)
    layers: list[list[Node]] = [[] for _ in range(1 + max(depth.values(), default=-1))]
    for node in nodes:
        layers[depth[node]].append(node)
    widths = {node: max(map(len, _label(node))) * _LETTER + 14 for node in nodes}
    total = max((sum(widths[node] + _GAP for node in layer) + _GAP for layer in layers), default=0.0)
    boxes: dict[Node, Box] = {}
    for row, layer in enumerate(layers):
        layer.sort(key=lambda node: _mean([boxes[arg][0] for arg in node.args if arg in boxes]))
        x = (total - sum(widths[node] + _GAP for node in layer) + _GAP) / 2
        for node in layer:
            boxes[node] = (x + widths[node] / 2, row * _ROW + _BOX / 2 + 4, widths[node])
            x += widths[node] + _GAP
    return boxes, total, len(layers) * _ROW


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def _label(node: Node) -> tuple[str, str]:
    """The two lines in a box."""
    kind = ", ".join(map(str, node.types)) if node.several else str(node.type)
    head = origin_name(node) if node.op in (INPUT, SHARED) else None
    if node.op is CONSTANT:
        head = number(node)
    elif node.op is SIZE:
        head = str(node.params["dim"])
    elif node.op is PART:
        head = f"[{node.params['index']}]"
    elif node.op is SCAN:
        head = f"scan, {len(node.params['body'].nodes())} nodes a step"
    return _shortened(head or node.op.name), _shortened(kind)


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _line(start: Box, end: Box) -> str:
    top, bottom = start[1] + _BOX / 2, end[1] - _BOX / 2
    return f'<line x1="{start[0]:.1f}" y1="{top:.1f}" x2="{end[0]:.1f}" y2="{bottom:.1f}" stroke="#999"/>'


def _box(node: Node, x: float, y: float, width: float) -> str:
    head, kind = (html.escape(writable(line)) for line in _label(node))
    fill = _FILLS.get(node.op, "#ffffff")
    return (
        f'<rect x="{x - width / 2:.1f}" y="{y - _BOX / 2:.1f}" width="{width:.1f}" height="{_BOX}" rx="5" '
        f'fill="{fill}" stroke="#666"/><text x="{x:.1f}" y="{y - 3:.1f}">{head}</text>'
        f'<text x="{x:.1f}" y="{y + 11:.1f}" fill="#666">{kind}</text>'
    )


@record
class GraphDrawing:
    """The drawing of a graph, made when it is shown. `subject` is an expression or a function."""

    subject: Any

    def _repr_svg_(self) -> str:
        return svg(self.subject)
