"""Neural networks as Lasagne builds them, on the engine of `scanjit`.

`import lasagne_like as lasagne`: layers with Lasagne's names, arguments, parameter order, tags and formulas.

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
>>> [p.shape for p in lasagne.layers.get_all_params(network, trainable=True)]
[(4, 8), (8,), (8, 3), (3,)]
"""

from lasagne_like import cells, init, layers, nonlinearities, objectives, random, regularization, updates, utils

__all__ = ["cells", "init", "layers", "nonlinearities", "objectives", "random", "regularization", "updates", "utils"]
