"""Neural networks as Lasagne builds them, on the engine of `scanjit`.

`import lasagne_like as lasagne`: layers with Lasagne's names, arguments, parameter order, tags and formulas. What
differs for code that was written for Lasagne:

- `scanjit` takes the place of `theano` and `theano.tensor`: `sj.matrix`, `sj.shared`, `sj.function`, `sj.grad`.
- Expressions carry no updates of their own. A function that trains a network with batch normalization or with state
  is given `updates | lasagne.layers.get_updates(network)`.
- `objectives` see a sigmoid or a softmax in the predictions and compute losses without rounding to log(0).
- Sizes and dtypes that do not fit are errors when the layer is made. The error shows both.
- Update rules keep the dtype of parameters, whatever that of the learning rate.

Examples
--------
A network, its loss, and a function that trains it:

>>> import numpy as np
>>> import scanjit as sj
>>> import lasagne_like as lasagne
>>> x, y = sj.matrix("x"), sj.ivector("y")
>>> network = lasagne.layers.InputLayer((None, 4), x)
>>> network = lasagne.layers.DenseLayer(network, 8, nonlinearity=lasagne.nonlinearities.tanh)
>>> network = lasagne.layers.DenseLayer(network, 3, nonlinearity=lasagne.nonlinearities.softmax)
>>> output = lasagne.layers.get_output(network)
>>> loss = lasagne.objectives.categorical_crossentropy(output, y).mean()
>>> params = lasagne.layers.get_all_params(network, trainable=True)
>>> updates = lasagne.updates.adam(loss, params, learning_rate=0.05)
>>> train = sj.function([x, y], loss, updates=updates, mode="reference")
>>> data = np.eye(4)
>>> losses = [float(train(data, np.array([0, 1, 2, 0], "int32"))) for _ in range(60)]
>>> losses[-1] < 0.1 * losses[0]
True
"""

from lasagne_like import (
    cells as cells,
    distributed as distributed,
    exporters as exporters,
    importers as importers,
    init as init,
    layers as layers,
    metrics as metrics,
    nonlinearities as nonlinearities,
    objectives as objectives,
    packing as packing,
    parameters as parameters,
    random as random,
    regularization as regularization,
    schedules as schedules,
    training as training,
    updates as updates,
    utils as utils,
)
from lasagne_like.quantizing import quantize as quantize
