"""Cycles of layers: layers that depend on each other through delays, and run as one scan over time.

A cycle is a strongly connected component of the network. In each step of the scan, every layer of the cycle computes
its output for sequences of one step, and a delay gives the value that its source had some steps before. So a layer may
be in a cycle only if its output at a step depends on no other step.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import scanjit as sj
from lasagne_like.layers.base import Layer, MergeLayer
from lasagne_like.layers.bidirectional import Bidirectional
from lasagne_like.layers.conv import BaseConvLayer
from lasagne_like.layers.cudnn import CudnnGRULayer, CudnnLSTMLayer
from lasagne_like.layers.delay import DelayLayer
from lasagne_like.layers.reverse import ReverseLayer
from lasagne_like.layers.rnn import RNNLayer

_OVER_TIME = (RNNLayer, Bidirectional, CudnnLSTMLayer, CudnnGRULayer, ReverseLayer, BaseConvLayer)
"""Layers whose output at a step depends on other steps. They cannot be in a cycle."""


def inputs_of(layer: Any) -> list[Any]:
    """The layers that feed a layer; None where only a shape was given."""
    if hasattr(layer, "input_layers"):
        return list(layer.input_layers)
    return [layer.input_layer] if hasattr(layer, "input_layer") else []


def apply(layer: Layer, method: str, given: Sequence[Any], **kwargs: Any) -> Any:
    """Call a method of a layer with the results of its input layers."""
    return getattr(layer, method)(list(given) if isinstance(layer, MergeLayer) else given[0], **kwargs)


def components(layers: Iterable[Layer], known: Mapping[Layer, Any]) -> Iterator[list[Layer]]:
    """The strongly connected components of the network that ends in `layers`: lists of layers that depend on each
    other.

    A layer outside of any cycle is a list of its own. Each component comes after the components that feed it. `known`
    layers are left out, and so are layers that feed only them. This is Tarjan's algorithm, without recursion.
    """
    number: dict[Layer, int] = {}
    low: dict[Layer, int] = {}
    open_: list[Layer] = []
    inside: set[Layer] = set()
    for root in layers:
        if root in number or root in known:
            continue
        work = [(root, iter(inputs_of(root)))]
        number[root] = low[root] = len(number)
        open_.append(root)
        inside.add(root)
        while work:
            layer, remaining = work[-1]
            following = next((o for o in remaining if o is not None and o not in known), None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[layer])
                if low[layer] == number[layer]:
                    at = open_.index(layer)
                    found, open_[at:] = open_[at:], []
                    inside.difference_update(found)
                    yield found
            elif following not in number:
                number[following] = low[following] = len(number)
                open_.append(following)
                inside.add(following)
                work.append((following, iter(inputs_of(following))))
            elif following in inside:
                low[layer] = min(low[layer], number[following])


def is_cycle(component: Sequence[Layer]) -> bool:
    """Whether the layers of a component depend on themselves."""
    return len(component) > 1 or component[0] in inputs_of(component[0])


def shapes_of(cycle: Sequence[Layer], known: Mapping[Layer, Any]) -> dict[Layer, Any]:
    """The output shapes of the layers of a cycle. They are computed twice: with the shapes for which the delays were
    made, and then with the shapes of the sources, which may have more known sizes."""
    delays, order = _ordered(cycle)
    found: dict[Layer, Any] = {delay: delay.output_shape for delay in delays}
    for _ in range(2):
        for layer in order:
            given = [found[o] if o in found else known[o] for o in inputs_of(layer)]
            found[layer] = apply(layer, "get_output_shape_for", given)
        found |= {delay: found[delay.source] for delay in delays if delay.source in found}
    return found


def outputs_of(cycle: Sequence[Layer], known: Mapping[Layer, Any], **kwargs: Any) -> dict[Layer, Any]:
    """The outputs of the layers of a cycle, from one scan over time. `known` has the outputs of the layers that feed
    the cycle."""
    delays, order = _ordered(cycle)
    _check(delays, order)
    loop = _Loop(delays, order, known, kwargs)
    return loop.run()


def _ordered(cycle: Sequence[Layer]) -> tuple[list[DelayLayer], list[Layer]]:
    """The delays of a cycle, and its other layers in an order in which each comes after the layers that feed it.
    (Delays do not count: their values are from other steps.)"""
    delays = [layer for layer in cycle if isinstance(layer, DelayLayer)]
    for delay in delays:
        for other in delay.input_layers[1:]:
            if other in cycle:
                raise ValueError(
                    f"{other!r} is the layer of the initial values or of the starts of {delay!r}, but it depends on "
                    "this delay itself"
                )
    order: list[Layer] = []
    outside = {other for layer in cycle for other in inputs_of(layer)} - set(cycle)
    for component in components(cycle, dict.fromkeys([*delays, *outside])):
        if is_cycle(component):
            raise ValueError(
                f"these layers depend on each other within one step: {', '.join(map(str, component))}; put a "
                "PastValueLayer or a FutureValueLayer between them"
            )
        order += component
    return delays, order


def _check(delays: Sequence[DelayLayer], order: Sequence[Layer]) -> None:
    ways = {delay.backwards for delay in delays}
    if len(ways) > 1:
        raise ValueError(
            f"the delays {', '.join(map(str, delays))} are in one loop, but some read earlier steps and others later "
            "ones: use only PastValueLayer or only FutureValueLayer in a loop"
        )
    for layer in order:
        if isinstance(layer, _OVER_TIME):
            raise ValueError(
                f"{layer} cannot be in a loop that delays close ({', '.join(map(str, delays))}): its output at a "
                "step depends on other steps"
            )


class _Loop:
    """The scan of a cycle: the sequences that it reads, the values that it keeps, and its outputs."""

    def __init__(
        self, delays: list[DelayLayer], order: list[Layer], known: Mapping[Layer, Any], kwargs: dict[str, Any]
    ) -> None:
        self.delays, self.order, self.known, self.kwargs = delays, order, known, kwargs
        self.backwards = delays[0].backwards
        feeding = dict.fromkeys(o for layer in order for o in inputs_of(layer) if o not in {*delays, *order})
        self.fixed = {layer: known[layer] for layer in feeding}
        self.rows = [layer for layer in feeding if known[layer].ndim > 2 and not _is_one(known[layer].shape[1])]
        """The layers outside of the cycle whose outputs are sequences."""
        if not self.rows:
            raise ValueError(
                f"no layer outside the loop of {', '.join(map(str, [*delays, *order]))} gives it a sequence, so its "
                "number of steps is not known: let one of these layers read an input of shape (batch, time, ...)"
            )
        self.batch, self.length = known[self.rows[0]].shape[:2]
        crossed = {d: d.crossed(self._inputs_but_source(d), (self.batch, self.length)) for d in delays}
        self.crossed = {delay: where for delay, where in crossed.items() if where is not None}
        self.initial = {d: d.initial_from(self._inputs_but_source(d), self.batch)[:, None] for d in delays}
        self.kept = list(dict.fromkeys(delay.source for delay in delays))
        """The sources of the delays."""

    def _inputs_but_source(self, delay: DelayLayer) -> list[Any]:
        """The inputs of a delay without its source."""
        extra: list[Any] = delay.input_layers[1:]
        return [None, *(self.known[other] for other in extra)]

    def run(self) -> dict[Layer, Any]:
        sequences = []
        for layer in self.rows:
            x = sj.specify_shape(self.known[layer], (None, self.length, *[None] * (self.known[layer].ndim - 2)))
            sequences.append(sj.swapaxes(x, 0, 1))
        sequences += [where.dimshuffle(1, 0) for where in self.crossed.values()]
        fresh = [layer for layer in self.order if layer not in self.kept]
        with without_updates(self.order, "a loop that delays close"):
            results = self._scan(sequences, fresh)
        named = dict(zip([*fresh, *(delay.source for delay in self.delays)], results, strict=True))
        outputs = {layer: self._in_time(rows) for layer, rows in named.items()}
        return outputs | {
            d: d.get_output_for([outputs[d.source], *self._inputs_but_source(d)[1:]]) for d in self.delays
        }

    def _scan(self, sequences: Sequence[Any], fresh: Sequence[Layer]) -> list[Any]:
        names = [delay.name for delay in self.delays if delay.name]
        results: list[Any] = sj.scan(
            lambda *args: self._step(args, fresh),
            sequences=sequences,
            outputs_info=[*[None] * len(fresh), *(self._beginning(delay) for delay in self.delays)],
            n_steps=self.length,
            go_backwards=self.backwards,
            name=names[0] if names else "delay",
            return_list=True,
        )
        return results

    def _beginning(self, delay: DelayLayer) -> dict[str, Any]:
        """The initial values of a delay for the scan: one for each step that it goes back."""
        first = self.initial[delay]
        if delay.steps == 1:
            return {"initial": first, "taps": [-1]}
        return {"initial": sj.broadcast_to(first[None], (delay.steps, *first.shape)), "taps": [-delay.steps]}

    def _step(self, args: Sequence[Any], fresh: Sequence[Layer]) -> list[Any]:
        rows, flags = args[: len(self.rows)], args[len(self.rows) : len(self.rows) + len(self.crossed)]
        kept = args[len(self.rows) + len(self.crossed) :]
        values: dict[Layer, Any] = dict(self.fixed)
        values |= {layer: row[:, None] for layer, row in zip(self.rows, rows, strict=True)}
        values |= dict(zip(self.delays, kept, strict=True))
        for delay, flag in zip(self.crossed, flags, strict=True):
            apart = flag.dimshuffle(0, *["x"] * (values[delay].ndim - 1))
            values[delay] = sj.where(apart, self.initial[delay], values[delay])
        for layer in self.order:
            value = apply(layer, "get_output_for", [values[o] for o in inputs_of(layer)], **self.kwargs)
            if not hasattr(value, "ndim") or value.ndim < 2 or not _is_one(value.shape[1]):
                raise ValueError(
                    f"{layer} cannot be in a loop that delays close: for a sequence of one step it gives {value!r}, "
                    "expected the shape (batch, 1, features...)"
                )
            values[layer] = value
        return [*(values[layer] for layer in fresh), *(self._handed_on(delay, values) for delay in self.delays)]

    def _handed_on(self, delay: DelayLayer, values: Mapping[Layer, Any]) -> Any:
        """The value of a step that a delay passes to a later step, in the dtype of the initial value."""
        features = delay.output_shape[2:]
        value = sj.specify_shape(values[delay.source], (self.batch, 1, *features), f"the input of {delay!r}")
        return sj.cast(value, self.initial[delay].dtype)

    def _in_time(self, rows: Any) -> Any:
        """A result of the scan in another layout: (time, batch, 1, features...) becomes (batch, time, features...)."""
        ordered = rows[::-1] if self.backwards else rows
        return sj.swapaxes(ordered[:, :, 0], 0, 1)


@contextmanager
def without_updates(layers: Iterable[Layer], where: str) -> Iterator[None]:
    """Raise an error if one of the layers updates shared variables inside the `with` block. The new values would depend
    on values of a single step, which do not exist outside of the scan."""
    before = {layer: layer.updates.copy() for layer in layers}
    yield
    for layer, known in before.items():
        if any(known.get(variable) is not new for variable, new in layer.updates.items()):
            layer.updates.clear()
            layer.updates.update(known)
            raise ValueError(
                f"{layer} updates shared variables, which is not possible in {where}: move the layer out, or call "
                "get_output with deterministic=True"
            )


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1
