"""A model of characters as three programs that come from one definition: init, train and predict.

So Caffe2 has it: the definition is a network for any number of steps; `init` fills its parameters, `train` makes a step
of descent on pieces of a text, `predict` reads one character more and says what may follow. They share the parameters,
and each goes on in the text where its last call ended. What is compiled can be looked at: the step of the loop and the
step of its gradient.

    python examples/char_programs.py                # rhymes, in half a minute
    python examples/char_programs.py --show         # the step net, the backward step net, and what was done to them
    python examples/char_programs.py --steps small  # all in small, in a moment
"""

import argparse
from functools import partial

import char_rnn
import numpy as np

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like import layers


class CharModel:
    """The definition: characters (batch, time), lengths (batch,) and the state before them -> what may follow each."""

    def __init__(self, symbols, units, checkpoint=None):
        self.symbols, self.units = symbols, units
        self.characters = layers.InputLayer((None, None), sj.lmatrix("characters"), name="characters")
        self.lengths = layers.InputLayer((None,), sj.lvector("lengths"), name="lengths")
        self.state = [layers.InputLayer((None, units), name=name) for name in ("cell_init", "hidden_init")]
        one_hot = layers.ExpressionLayer(
            self.characters,
            lambda x: sj.one_hot(x, symbols, dtype=sj.config.floatX),
            lambda shape: (*shape, symbols),
        )
        self.lstm = layers.RNNLayer(
            one_hot,
            lasagne.cells.LSTM(units, name="LSTM"),
            initial_state=dict(zip(("cell", "hid"), self.state, strict=True)),
            seq_lengths=self.lengths,
            return_state=True,
            checkpoint=checkpoint,
        )
        self.hidden = layers.SelectLayer(self.lstm, 0)
        self.last = layers.SelectLayer(self.lstm, 1)
        softmax = lasagne.nonlinearities.softmax
        self.following = layers.DenseLayer(
            self.hidden, symbols, nonlinearity=softmax, num_leading_axes=2, name="output"
        )
        self.params = layers.get_all_params(self.following)

    def run_net(self, characters, lengths, state):
        """The probabilities of what follows each character, (batch, time, symbols), and the state after the last."""
        given = {self.characters: characters, self.lengths: lengths, **dict(zip(self.state, state, strict=True))}
        following, last = layers.get_output([self.following, self.last], given)
        return following, [last.cell, last.hid]

    def kept_state(self, batch):
        """Shared variables for the state between calls."""
        zeros = np.zeros((batch, self.units), sj.config.floatX)
        return [sj.shared(zeros, layer.name, shape=(None, self.units)) for layer in self.state]


def fill(param, stream):
    """What Caffe2's XavierFill gives for a matrix (inputs, outputs); zeros for a bias."""
    value = param.get_value(borrow=True)
    if value.ndim < 2:
        return np.zeros_like(value)
    bound = np.sqrt(3.0 / len(value))
    return stream.uniform(value.shape, -bound, bound, dtype=value.dtype)


def training_loss(model, state):
    """The symbols that training is given, the mean loss of a character that counts, and the state after them."""
    characters, lengths, following = sj.lmatrix("characters"), sj.lvector("lengths"), sj.lmatrix("following")
    found, last = model.run_net(characters, lengths, state)
    losses = lasagne.objectives.categorical_crossentropy(found, following)
    counts = (sj.arange(characters.shape[1]) < lengths[:, None]).astype(sj.config.floatX)
    return [characters, lengths, following], (losses * counts).sum() / counts.sum(), last


def programs(model, batch, rate=0.01, seed=0, mode="numba"):
    """The functions `init()`, `train(characters, lengths, following)` -> loss, and `predict(character)` -> chances."""
    function = partial(sj.function, mode=mode)
    reading, writing = model.kept_state(batch), model.kept_state(1)

    inputs, loss, last = training_loss(model, reading)
    grads = lasagne.updates.total_norm_constraint(sj.grad(loss, model.params), max_norm=5.0)
    descent = lasagne.updates.adam(grads, model.params, learning_rate=rate)
    train = function(inputs, loss, updates=[*descent.items(), *zip(reading, last, strict=True)], name="train")

    character = sj.lscalar("character")
    chances, last = model.run_net(character.reshape(1, 1), sj.constant([1]), writing)
    predict = function([character], chances[0, 0], updates=list(zip(writing, last, strict=True)), name="predict")

    stream = sj.random.Stream(seed)
    start = {variable: np.zeros_like(variable.get_value()) for variable in [*descent, *reading, *writing]}
    init = function([], None, updates=start | {p: fill(p, stream) for p in model.params}, name="init")
    return init, train, predict


def pieces(numbers, batch, length):
    """A text in as many rows as a batch has, cut into pieces: characters, and for each the next one."""
    rows = (len(numbers) - 1) // batch
    places = np.arange(batch)[:, None] * rows
    for start in range(0, rows - length + 1, length):
        steps = places + start + np.arange(length)
        yield numbers[steps], numbers[steps + 1]


def write(predict, alphabet, beginning, length, random):
    """Go on with a text, one call a character."""
    text = [alphabet.index(character) for character in beginning]
    for place in range(len(text) + length - 1):
        chances = predict(text[place]).astype("float64")
        if place + 1 == len(text):
            text.append(random.choice(len(alphabet), p=chances / chances.sum()))
    return "".join(alphabet[i] for i in text)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="A model of characters as three programs.")
    parser.add_argument("--steps", default="600", help="how many steps of training; 'small' for a quick run")
    parser.add_argument("--show", action="store_true", help="print the steps of the loops, and how they are run")
    parser.add_argument("--mode", default="numba", help="how functions are run: numba, emulate or reference")
    options = parser.parse_args(arguments)
    small = options.steps == "small"
    steps, units, batch, length = (8, 16, 4, 16) if small else (int(options.steps), 128, 32, 32)

    sj.config.floatX = "float32"
    random = np.random.default_rng(0)
    text = char_rnn.rhymes(30 if small else 2000, random)
    alphabet = sorted(set(text))
    numbers = char_rnn.encode(text, alphabet)
    model = CharModel(len(alphabet), units)
    init, train, predict = programs(model, batch, mode=options.mode)
    if options.show:
        for loop in ("LSTM", "LSTM.grad"):
            print(f"the step of the loop {loop}:\n{sj.dprint(train, 'str', loop=loop)}")
        print(train.explain())

    init()
    losses = []
    while len(losses) < steps:
        for characters, following in pieces(numbers, batch, length):
            losses.append(float(train(characters, np.full(batch, length), following)))
            if len(losses) % 100 == 0:
                print(f"step {len(losses):5}   loss {np.mean(losses[-100:]):.3f}")
            if len(losses) == steps:
                break
    print(write(predict, alphabet, "There was a ", 30 if small else 300, random))
    assert np.mean(losses[-3:]) < losses[0]
    return losses


if __name__ == "__main__":
    main()
