"""TensorFlow: Keras layers in a `tf.function`, which on a CPU returns when it is done. Its arrays have the batch first;
they are laid out before the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.case import Arrays, Program, Task


def layer(
    make_layer: Callable[[Any, Task], Any],
    weights: Callable[[Arrays], list[np.ndarray]],
    read_weights: Callable[[list[np.ndarray]], list[np.ndarray]],
) -> Callable[[Task], Program]:
    """A program of a recurrent Keras layer: its weights from the arguments, their gradients back as the case has
    them."""

    def make(task: Task) -> Program:
        import tensorflow as tf

        arguments = task.arguments()
        x = tf.constant(arguments["x"].swapaxes(0, 1).copy())
        network = make_layer(tf, task)
        network.build(x.shape)
        network.set_weights(weights(arguments))
        if not task.gradient:
            run = tf.function(lambda x: [network(x, training=False)]).get_concrete_function(x)
            return Program(lambda: run(x), lambda results: [_time_first(results[0])])
        dy = tf.constant(task.cotangent().swapaxes(0, 1).copy())

        @tf.function
        def with_gradient(x: Any, dy: Any) -> list[Any]:
            with tf.GradientTape() as recorded:
                recorded.watch(x)
                y = network(x, training=True)
            return [y, *recorded.gradient(y, [x, *network.trainable_variables], dy)]

        run = with_gradient.get_concrete_function(x, dy)

        def read(results: list[Any]) -> list[np.ndarray]:
            y, dx, *found = results
            return [_time_first(y), _time_first(dx), *read_weights([np.array(g) for g in found])]

        return Program(lambda: run(x, dy), read)

    return make


def _time_first(x: Any) -> np.ndarray:
    return np.ascontiguousarray(np.array(x).swapaxes(0, 1))
