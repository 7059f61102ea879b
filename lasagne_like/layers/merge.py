"""Layers that join several inputs."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

import scanjit as sj
from lasagne_like.checks import check_number
from lasagne_like.layers.base import Incoming, MergeLayer, axis_of, check_function
from lasagne_like.layers.crop import autocrop, autocrop_array_shapes, modes_of
from lasagne_like.utils import Shape, number

__all__ = ["ConcatLayer", "ElemwiseMergeLayer", "ElemwiseSumLayer", "concat"]


def _common(shapes: Sequence[Shape], besides: int | None = None) -> list[int | None]:
    """The shape that several inputs have in common. A size is known if it is known for one of the inputs. The sizes of
    axis `besides` may differ."""
    ndims = {len(shape) for shape in shapes}
    if len(ndims) == 1:
        columns = [{size for size in sizes if size is not None} for sizes in zip(*shapes, strict=True)]
        if all(len(sizes) <= 1 or axis == besides for axis, sizes in enumerate(columns)):
            return [next(iter(sizes), None) for sizes in columns]
    but = "" if besides is None else f" (but for axis {besides})"
    raise ValueError(f"mismatch: inputs must have the same shape{but}, got {', '.join(map(str, shapes))}")


class ConcatLayer(MergeLayer):
    """Concatenates its inputs along an axis.

    Parameters
    ----------
    incomings : list of Layers and tuples
        All sizes but that of `axis` must be equal.
    axis : int
    cropping : sequence of "lower", "center", "upper" and None, optional
        See `autocrop`. `axis` itself is never cropped.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import ConcatLayer
    >>> ConcatLayer([(None, 3, 5), (7, 4, None)]).output_shape
    (7, 7, 5)
    """

    def __init__(
        self,
        incomings: Sequence[Incoming],
        axis: int = 1,
        cropping: Sequence[str | None] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incomings, name=name)
        self.axis = axis_of(self, axis, self.input_shapes[0])
        self.cropping: list[str | None] | None = None
        if cropping is not None:
            modes = modes_of(cropping, [len(shape) for shape in self.input_shapes])
            self.cropping = [None if i == self.axis else mode for i, mode in enumerate(modes)]

    def get_output_shape_for(self, input_shapes: Sequence[Shape]) -> Shape:
        shapes = autocrop_array_shapes(input_shapes, self.cropping)
        result = _common(shapes, self.axis)
        sizes = [shape[self.axis] for shape in shapes]
        known = [size for size in sizes if size is not None]
        result[self.axis] = sum(known) if len(known) == len(sizes) else None
        return tuple(result)

    def get_output_for(self, inputs: Sequence[Any], **kwargs: Any) -> sj.Node:
        return sj.concatenate(autocrop(inputs, self.cropping), axis=self.axis)


concat = ConcatLayer


class ElemwiseMergeLayer(MergeLayer):
    """Merges its inputs with a function of two tensors: `f(f(x0, x1), x2)` for three inputs.

    Parameters
    ----------
    incomings : list of Layers and tuples
        All of one shape.
    merge_function : callable
        Such as `scanjit.add`, `scanjit.multiply`, `scanjit.maximum`.
    cropping : sequence of "lower", "center", "upper" and None, optional
        See `autocrop`.
    name : str, optional

    Examples
    --------
    >>> import scanjit as sj
    >>> from lasagne_like.layers import ElemwiseMergeLayer
    >>> ElemwiseMergeLayer([(None, 5), (3, 5)], sj.maximum).output_shape
    (3, 5)
    """

    def __init__(
        self,
        incomings: Sequence[Incoming],
        merge_function: Callable[[Any, Any], Any],
        cropping: Sequence[str | None] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incomings, name=name)
        check_function(self, merge_function, "merge_function")
        if cropping is not None:
            cropping = modes_of(cropping, [len(shape) for shape in self.input_shapes])
        self.merge_function, self.cropping = merge_function, cropping

    def get_output_shape_for(self, input_shapes: Sequence[Shape]) -> Shape:
        return tuple(_common(autocrop_array_shapes(input_shapes, self.cropping)))

    def get_output_for(self, inputs: Sequence[Any], **kwargs: Any) -> Any:
        return reduce(self.merge_function, autocrop(inputs, self.cropping))


class ElemwiseSumLayer(ElemwiseMergeLayer):
    """The sum of its inputs, each multiplied by a coefficient.

    Parameters
    ----------
    incomings : list of Layers and tuples
        All of one shape.
    coeffs : number or scalar expression, or a list of them
        One coefficient for all inputs, or one for each. Coefficients are not parameters of the layer.
    cropping : sequence of "lower", "center", "upper" and None, optional
        See `autocrop`.
    name : str, optional

    Examples
    --------
    >>> from lasagne_like.layers import ElemwiseSumLayer
    >>> ElemwiseSumLayer([(None, 5), (None, 5)], coeffs=[1, -1]).output_shape
    (None, 5)
    """

    def __init__(
        self,
        incomings: Sequence[Incoming],
        coeffs: Any = 1,
        cropping: Sequence[str | None] | None = None,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(incomings, sj.add, cropping=cropping, name=name)
        self.coeffs = list(coeffs) if isinstance(coeffs, list | tuple) else [coeffs] * len(incomings)
        if len(self.coeffs) != len(incomings):
            raise ValueError(
                f"mismatch: got {len(self.coeffs)} coeffs for {len(incomings)} incomings: give one number for all, or "
                "one for each"
            )
        for coeff in self.coeffs:
            check_number(self, coeff, "coeffs", -np.inf)

    def get_output_for(self, inputs: Sequence[Any], **kwargs: Any) -> Any:
        one = [isinstance(c, int | float) and c == 1 for c in self.coeffs]
        scaled = [x if plain else x * number(c, x.dtype) for x, c, plain in zip(inputs, self.coeffs, one, strict=True)]
        return super().get_output_for(scaled, **kwargs)
