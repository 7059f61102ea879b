"""A language model of words, unrolled: two LSTMs in a row of steps, as the models of the Penn Treebank were built.

The steps of a piece of text are written one after the other, without a loop; the state goes on from piece to piece, and
gradients through a piece only (truncated back-propagation). Dropout is between the layers, not on the way from step to
step. Descent with a rate that halves, and gradients whose norm is bounded. Without a text of yours it reads rhymes.

    python examples/ptb.py                     # rhymes, in a minute
    python examples/ptb.py ptb.train.txt       # a text of yours: words, with spaces between
    python examples/ptb.py --loop              # the same numbers, by a loop in place of steps in a row
    python examples/ptb.py --steps small       # all in small

Zaremba, Sutskever and Vinyals, "Recurrent neural network regularization", 2014.
"""

import argparse
import time
from pathlib import Path

import char_rnn
import numpy as np

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like import layers


def words_of(text):
    """The words of a text as numbers, line ends among them, and how many different ones there are."""
    words = text.replace(",", " ,").replace(".", " .").replace("\n", " <eos> ").split()
    alphabet, numbers = np.unique(words, return_inverse=True)
    return numbers, len(alphabet)


def build(words, units, batch, length, unroll, drop=0.2, depth=2):
    """Words (batch, time) in, the probabilities of the next ones out; the recurrent layers keep their states."""
    given = layers.InputLayer((batch, length), sj.lmatrix("words"))
    network = layers.DropoutLayer(layers.EmbeddingLayer(given, words, units, name="embed"), drop)
    recurrent = []
    for k in range(depth):
        gates = lasagne.cells.LSTM(units, name=f"lstm{k}")
        recurrent.append(layers.RNNLayer(network, gates, unroll_scan=unroll, stateful=True, name=f"lstm{k}"))
        network = layers.DropoutLayer(recurrent[-1], drop)
    softmax = lasagne.nonlinearities.softmax
    network = layers.DenseLayer(network, words, nonlinearity=softmax, num_leading_axes=2, name="next")
    return given, recurrent, network


def compile_model(given, network, rate, mode):
    """`train(words, following)` and `evaluate(words, following)`, which give the mean loss of a word."""
    following = sj.lmatrix("following")
    inputs, params = [given.input_var, following], layers.get_all_params(network, trainable=True)

    def loss(**options):
        found = layers.get_output(network, **options)
        return lasagne.objectives.categorical_crossentropy(found, following).mean(), layers.get_updates(network)

    cost, states = loss()
    grads = lasagne.updates.total_norm_constraint(sj.grad(cost, params), max_norm=5.0)
    train = sj.function(
        inputs, cost, updates=lasagne.updates.sgd(grads, params, rate) | states, mode=mode, name="train"
    )
    cost, states = loss(deterministic=True)
    return train, sj.function(inputs, cost, updates=states, mode=mode, name="evaluate")


def pieces(numbers, batch, length):
    """The text in as many rows as a batch has, piece by piece: words, and for each the next one."""
    rows = numbers[: len(numbers) // batch * batch].reshape(batch, -1)
    for start in range(0, rows.shape[1] - length, length):
        yield rows[:, start : start + length], rows[:, start + 1 : start + length + 1]


def perplexity(function, recurrent, numbers, batch, length):
    """exp of the mean loss over a text, from its beginning on."""
    for layer in recurrent:
        layer.reset_states()
    return float(np.exp(np.mean([function(*piece) for piece in pieces(numbers, batch, length)])))


def main(arguments=None):
    parser = argparse.ArgumentParser(description="A language model of words, unrolled.")
    parser.add_argument("text", nargs="?", type=Path, help="the text to learn from; by default rhymes")
    parser.add_argument("--steps", default="8", help="how many times the text is read; 'small' for a quick run")
    parser.add_argument("--loop", action="store_true", help="a loop in place of steps in a row")
    parser.add_argument("--mode", default="numba", help="how functions are run: numba, emulate or reference")
    options = parser.parse_args(arguments)
    small = options.steps == "small"
    epochs, units, batch, length = (2, 12, 4, 5) if small else (int(options.steps), 128, 20, 20)

    sj.config.floatX = "float32"
    lasagne.random.set_rng(np.random.default_rng(1))
    text = (
        options.text.read_text("utf-8")
        if options.text
        else char_rnn.rhymes(20 if small else 2000, np.random.default_rng(0))
    )
    numbers, words = words_of(text)
    train_text, test_text = np.split(numbers, [len(numbers) * 9 // 10])
    given, recurrent, network = build(words, units, batch, length, unroll=not options.loop)
    rate = sj.shared(np.float32(1.0), "rate")
    start = time.perf_counter()
    train, evaluate = compile_model(given, network, rate, options.mode)
    print(f"{len(numbers)} words, {words} different ones; compiled in {time.perf_counter() - start:.1f} s")
    found = []
    for epoch in range(epochs):
        rate.set_value(np.float32(0.5 ** max(epoch - 3, 0)))
        start = time.perf_counter()
        own = perplexity(train, recurrent, train_text, batch, length)
        spent = time.perf_counter() - start
        found.append(perplexity(evaluate, recurrent, test_text, batch, length))
        print(f"epoch {epoch}   perplexity {own:8.2f}   of what it has not seen {found[-1]:8.2f}   {spent:5.1f} s")
    assert found[-1] < found[0] < words
    return found


if __name__ == "__main__":
    main()
