"""Slices moved in front of ops, so that less is computed: `(h @ R)[:, a:b] -> h @ R[:, a:b]`, `f(x)[w] -> f(x[w])`.

This is done only if every use of a value is a slice of it, and no two of these slices overlap, so that nothing is
computed twice. It turns the gates of a recurrent cell into products of their own.
"""

from collections.abc import Iterable, Sequence

from scanjit import errors, types
from scanjit.ir import Node, rebuild, walk
from scanjit.ops.contraction import CONTRACT, contract
from scanjit.ops.shape import SLICE
from scanjit.ops.stretch import BROADCAST_TO, broadcast_to
from scanjit.ops.view import DIMSHUFFLE
from scanjit.rewrite.engine import Note, in_bodies
from scanjit.rewrite.match import Window, apart, cut, is_elementwise, is_whole, window_of
from scanjit.types import Dimension

_Demands = dict[Window, None]


def push_slices(outputs: list[Node], notes: list[Note], *, in_loop: bool = False) -> list[Node]:
    """Move slices in front of the ops whose results they cut: `(h @ R)[:, a:b]` becomes `h @ R[:, a:b]`."""
    outputs = in_bodies(outputs, lambda inner: push_slices(inner, notes, in_loop=True))
    return _Pusher(outputs, notes, in_loop).run()


class _Pusher:
    """Moves the slices of one graph. First it finds, from the outputs back, which windows of each node are asked for.
    Then, in the order of computation, it makes these nodes window by window."""

    def __init__(self, outputs: list[Node], notes: list[Note], in_loop: bool) -> None:
        self.outputs, self.notes, self.in_loop = outputs, notes, in_loop
        self.order = walk(outputs)
        self.whole: set[Node] = set(outputs)
        self.windows: dict[Node, _Demands] = {}
        self.split: set[Node] = set()
        self.done: dict[Node, Node] = {}
        self.cuts: dict[tuple[Node, Window], Node] = {}

    def run(self) -> list[Node]:
        if not any(node.op is SLICE for node in self.order):
            return self.outputs
        for node in reversed(self.order):
            self._ask(node)
        if not self.split:
            return self.outputs
        for node in self.order:
            if node not in self.split:
                self.done[node] = self._rebuilt(node)
        return [self.done[output] for output in self.outputs]

    def _ask(self, node: Node) -> None:
        """Decide whether a node is made in windows, and note which windows of its operands it then asks for."""
        asked = self.windows.get(node, {})
        if node not in self.whole and asked and self._splits(node, asked):
            self.split.add(node)
            for window in asked:
                for arg, part in needed_windows(node, window):
                    if is_whole(part, arg.type.shape):
                        self.whole.add(arg)
                    else:
                        self.windows.setdefault(arg, {})[part] = None
            self.whole.update(node.args[node.arity :])
            if node.op is CONTRACT:
                text = f"a product is used in {len(asked)} slices: each is a product of its own"
                self.notes.append(Note("push_slices", node.where, text))
        elif node.op is SLICE and (node in self.whole or asked):
            self.windows.setdefault(node.operands[0], {})[window_of(node)] = None
            self.whole.update(node.args[node.arity :])
        else:
            self.whole.update(node.args)

    def _splits(self, node: Node, asked: _Demands) -> bool:
        """Whether a node is made in the windows that are asked for."""
        if not can_be_cut(node, asked) or not _do_not_overlap(list(asked)):
            return False
        return self.in_loop or not (_is_long(node) and _is_all(asked, node))

    def _rebuilt(self, node: Node) -> Node:
        if node.op is SLICE and node.operands[0] in self.split:
            return self._cut(node.operands[0], window_of(node))
        return rebuild(node, tuple(self.done[arg] for arg in node.args))

    def _cut(self, node: Node, window: Window) -> Node:
        """A window of a node that is made in windows."""
        stack: list[tuple[Node, Window]] = [(node, window)]
        while stack:
            at, w = stack[-1]
            if (at, w) in self.cuts:
                stack.pop()
                continue
            if at not in self.split:
                with errors.located(at.where):
                    self.cuts[at, w] = cut(self.done[at], w)
                continue
            needed = list(needed_windows(at, w))
            missing = [(arg, part) for arg, part in needed if (arg, part) not in self.cuts]
            if missing:
                stack.extend(missing)
                continue
            with errors.located(at.where):
                self.cuts[at, w] = remade(at, w, [self.cuts[key] for key in needed])
        return self.cuts[node, window]


def can_be_cut(node: Node, asked: Iterable[Window]) -> bool:
    """Whether an op can be applied to windows of its operands to make these windows of its result."""
    if node.op is DIMSHUFFLE:  # a new axis has one entry, so its window must be whole
        new = [axis for axis, a in enumerate(node.params["order"]) if a is None]
        return all(window[axis][1] == 1 for window in asked for axis in new)
    return node.op in (CONTRACT, BROADCAST_TO) or (is_elementwise(node) and node.ndim > 0)


def _is_long(node: Node) -> bool:
    """Whether the node is a product that sums any number of terms into a result of known size, like the gradient of
    weights (over time and batch): the result is small beside the operands, so it costs little to store it whole. One
    wide product also has fewer ends of rows than several narrow ones."""
    if node.op is not CONTRACT or not isinstance(types.product(node.type.shape), int):
        return False
    return not all(isinstance(n, int) for x in node.operands for n in x.type.shape)


def _is_all(windows: _Demands, node: Node) -> bool:
    """Whether windows, which do not overlap, together cover all of a node."""
    total: Dimension = 0
    for window in windows:
        total = types.product([length for _, length, _ in window]) + total
    return total == types.product(node.type.shape)


def _do_not_overlap(windows: Sequence[Window]) -> bool:
    """Whether no two windows overlap."""
    for i, a in enumerate(windows):
        for b in windows[:i]:
            if not any(apart(v, w) for v, w in zip(a, b, strict=True)):
                return False
    return True


def needed_windows(node: Node, window: Window) -> list[tuple[Node, Window]]:
    """The windows of a node's operands that a window of the node is made of."""
    if node.op is CONTRACT:
        by_label = dict(zip(node.params["out"], window, strict=True))
        return [
            (x, tuple(by_label.get(label, (0, n, 1)) for label, n in zip(node.params[side], x.type.shape, strict=True)))
            for side, x in zip(("left", "right"), node.operands, strict=True)
        ]
    if node.op is DIMSHUFFLE:
        (x,) = node.operands
        by_axis = dict(zip(node.params["order"], window, strict=True))
        return [(x, tuple(by_axis.get(a, (0, n, 1)) for a, n in enumerate(x.type.shape)))]
    return [(x, _narrowed(x, window)) for x in node.operands]


def _narrowed(x: Node, window: Window) -> Window:
    """The window of an operand that is broadcast."""
    own = window[len(window) - x.ndim :]
    return tuple((0, 1, 1) if n == 1 else w for w, n in zip(own, x.type.shape, strict=True))


def remade(node: Node, window: Window, args: Sequence[Node]) -> Node:
    """A window of a node from the windows of its operands."""
    shape = tuple(length for _, length, _ in window)
    if node.op is CONTRACT:
        p = node.params
        return contract(args[0], args[1], p["left"], p["right"], p["out"])
    if node.op is DIMSHUFFLE:
        return DIMSHUFFLE(args[0], order=node.params["order"])
    if node.op is BROADCAST_TO:
        return BROADCAST_TO(args[0], shape=shape)
    result = node.op(*args, **node.params)
    return broadcast_to(result, shape)
