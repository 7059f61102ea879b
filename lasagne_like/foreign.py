"""Arguments and methods of Keras, with their replacements in this package, for errors."""

import difflib
import inspect
from collections.abc import Iterable

ARGUMENTS = {
    "activation": "write nonlinearity=",
    "bias_initializer": "write b=",
    "dropout": "write RNNLayer(x, cells.DropoutWrapper(cell, input=...))",
    "filters": "write num_filters=",
    "go_backwards": "write backwards=True",
    "input_dim": "write input_size=",
    "kernel_initializer": "write W=",
    "mask": "write mask_input=",
    "merge_mode": "write merge=",
    "output_dim": "write output_size=",
    "rate": "write p=",
    "recurrent_dropout": "write RNNLayer(x, cells.DropoutWrapper(cell, state=...))",
    "return_sequences": "all steps are returned, or with only_return_final=True the last one",
    "units": "write num_units=",
    "use_bias": "write b=None for no bias",
}
"""For each argument of Keras, the hint that names the replacement."""

METHODS = {
    "compile": "write train = scanjit.function([x, y], loss, updates=lasagne_like.updates.adam(loss, weights))",
    "evaluate": "write score = scanjit.function([x, y], loss_or_metric), and call it with the data",
    "fit": "write lasagne_like.training.fit(train, batches, epochs)",
    "get_weights": "write lasagne_like.layers.get_all_param_values(layer)",
    "predict": "write predict = scanjit.function([x], lasagne_like.layers.get_output(layer, deterministic=True))",
    "save_weights": "write np.savez(path, *lasagne_like.layers.get_all_param_values(layer))",
    "set_weights": "write lasagne_like.layers.set_all_param_values(layer, values)",
    "summary": "write lasagne_like.layers.summary(layer)",
    "trainable_weights": "write lasagne_like.layers.get_all_params(layer, trainable=True)",
    "weights": "write lasagne_like.layers.get_all_params(layer)",
}
"""For each method of Keras's models and layers, the hint that names the replacement."""


def check_words(cls: type, names: Iterable[str]) -> None:
    """Raise an error if one of the names is an argument of Keras that the class does not take. The error names the
    replacement."""
    for name in sorted(ARGUMENTS.keys() & set(names)):
        taken = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
        if name not in taken and inspect.Parameter.VAR_KEYWORD not in [one.kind for one in taken.values()]:
            raise unexpected(cls, name)


def unexpected(cls: type, name: str) -> TypeError:
    """The error about an argument that a class does not take."""
    hint = f": {ARGUMENTS[name]}" if name in ARGUMENTS else ""
    return TypeError(f"{cls.__name__} got an unexpected keyword argument {name!r}{hint}")


def no_method(owner: object, name: str) -> AttributeError:
    """The error about a method of Keras that an object does not have. It names the replacement."""
    return AttributeError(
        f"{type(owner).__name__!r} object has no attribute {name!r}: {METHODS[name]}", name=name, obj=owner
    )


def no_layer(name: str, names: Iterable[str]) -> AttributeError:
    """The error about a name that `lasagne_like.layers` does not have. It suggests the most similar name in `names`."""
    known = sorted(names)
    near = [f"{name}Layer"] if f"{name}Layer" in known else difflib.get_close_matches(name, known, 1)
    hint = f": write {near[0]}" if near else ""
    return AttributeError(f"module 'lasagne_like.layers' has no attribute {name!r}{hint}", name=name)
