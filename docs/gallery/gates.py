"""
What an LSTM keeps
==================

The memory of an untrained and of a trained LSTM that has to recall the first sign of a sequence.
"""

import matplotlib.pyplot as plt
import numpy as np

import lasagne_like as lasagne
import scanjit as sj

lasagne.random.set_rng(np.random.default_rng(1))
random = np.random.default_rng(0)


def examples(count, length=20):
    x = random.normal(size=(count, length, 1)) * 0.5
    signs = random.choice([-1.0, 1.0], count)
    x[:, 0, 0] = 2 * signs
    return x, signs


l_in = lasagne.layers.InputLayer((None, None, 1), sj.tensor3("x"))
l_states = lasagne.layers.RNNLayer(l_in, lasagne.cells.LSTM(12, forget_bias=2.0))
l_last = lasagne.layers.SliceLayer(l_states, -1, axis=1)
l_out = lasagne.layers.DenseLayer(l_last, 1, nonlinearity=np.tanh)
signs = sj.vector("signs")
error = ((lasagne.layers.get_output(l_out)[:, 0] - signs) ** 2).mean()
updates = lasagne.updates.adam(error, lasagne.layers.get_all_params(l_out, trainable=True), 0.02)
train = sj.function([l_in.input_var, signs], error, updates=updates)
look = sj.function([l_in.input_var], lasagne.layers.get_output(l_states))

probe = examples(1)[0]
before = look(probe)[0]
for _ in range(400):
    train(*examples(32))
figure, axes = plt.subplots(2, 1, figsize=(7, 4), sharex=True)
for axis, states, title in zip(axes, (before, look(probe)[0]), ("before training", "after")):
    axis.imshow(states.T, aspect="auto", cmap="RdBu", vmin=-1, vmax=1)
    axis.set_title(title)
    axis.set_ylabel("unit")
axes[1].set_xlabel("step")
plt.show()
