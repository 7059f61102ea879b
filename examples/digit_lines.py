"""Read lines of handwritten digits: a CRNN (convolutions, pooling, a bidirectional LSTM) with the CTC loss.

A line is a picture of 8 rows and any number of columns, made of the digits of scikit-learn with gaps between them. What
is known of a line is which digits it has, not where they are: the loss sums over all places where they may lie.

    python examples/digit_lines.py                # in half a minute
    python examples/digit_lines.py --steps small  # all in small, in some seconds
"""

import argparse
import time
from itertools import groupby

import numpy as np
from sklearn.datasets import load_digits

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like import layers

BLANK = 10
COLUMNS_A_STEP = 2
"""Pooling makes one step of so many columns."""


def lines(random, pictures, labels, count, longest):
    """Lines (rows, columns) of digits that are drawn from these, with gaps between; and their labels."""
    found, read = [], []
    for length in random.integers(2, longest + 1, count):
        chosen = random.integers(0, len(pictures), length)
        parts = [np.zeros((8, random.integers(0, 4)))]
        for k in chosen:
            parts += [pictures[k], np.zeros((8, random.integers(0, 4)))]
        line = np.concatenate(parts, axis=1)
        found.append(line + random.normal(0, 0.1, line.shape))
        read.append(labels[chosen])
    return found, read


def batches(pictures, labels, size):
    """Lines of about the same length together: pictures (batch, 1, 8, columns), labels, and the numbers of steps and of
    labels of each line."""
    order = np.argsort([line.shape[1] for line in pictures], kind="stable")
    for start in range(0, len(order), size):
        part = order[start : start + size]
        columns = [pictures[k].shape[1] for k in part]
        x = np.zeros((len(part), 1, 8, max(columns)), "float32")
        targets = np.zeros((len(part), max(len(labels[k]) for k in part)), np.int64)
        for row, k in enumerate(part):
            x[row, 0, :, : columns[row]] = pictures[k]
            targets[row, : len(labels[k])] = labels[k]
        yield x, targets, np.array(columns) // COLUMNS_A_STEP, np.array([len(labels[k]) for k in part])


def build(filters, units):
    """Pictures (batch, 1, 8, columns) in, probabilities (batch, steps, classes) out."""
    l_in = layers.InputLayer((None, 1, 8, None))
    l_conv = layers.Conv2DLayer(l_in, filters, 3, pad="same")
    l_pool = layers.MaxPool2DLayer(l_conv, (2, COLUMNS_A_STEP))
    l_conv = layers.Conv2DLayer(l_pool, 2 * filters, 3, pad="same")
    l_pool = layers.MaxPool2DLayer(l_conv, (2, 1))
    l_steps = layers.ReshapeLayer(layers.DimshuffleLayer(l_pool, (0, 3, 1, 2)), ([0], [1], -1))
    l_both = layers.Bidirectional(layers.LSTMLayer(l_steps, units), merge="concat")
    softmax = lasagne.nonlinearities.softmax
    return l_in, layers.DenseLayer(l_both, 11, nonlinearity=softmax, num_leading_axes=2)


def compile_functions(l_in, l_out, rate):
    """Functions of (pictures, labels, steps, labels a line): both return the loss; one trains, the other reads."""
    targets, steps, counts = sj.lmatrix("targets"), sj.lvector("steps"), sj.lvector("counts")
    predictions = layers.get_output(l_out)
    loss = lasagne.objectives.ctc_loss(predictions, targets, steps, counts, blank=BLANK).mean()
    params = layers.get_all_params(l_out, trainable=True)
    slopes = lasagne.updates.total_norm_constraint(sj.grad(loss, params), 5.0)
    updates = lasagne.updates.adam(slopes, params, learning_rate=rate)
    inputs = [l_in.input_var, targets, steps, counts]
    train = sj.function(inputs, loss, updates=updates, name="train")
    return train, sj.function(inputs, [loss, sj.argmax(predictions, axis=2)], name="evaluate")


def decoded(classes):
    """The labels of the likeliest class of each step: without repetitions, then without blanks."""
    return [int(label) for label, _ in groupby(classes) if label != BLANK]


def distance(a, b):
    """How many labels must be inserted, left out or replaced to make one list of another."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def score(evaluate, pictures, labels):
    """The share of digits of other lines that are read wrong, and the last lines as they are and as they are read."""
    wrong = total = 0
    for x, targets, steps, counts in batches(pictures, labels, 64):
        _, classes = evaluate(x, targets, steps, counts)
        pairs = [
            (target[:count].tolist(), decoded(own[:n]))
            for target, count, own, n in zip(targets, counts, classes, steps, strict=True)
        ]
        wrong += sum(distance(*pair) for pair in pairs)
        total += counts.sum()
    return wrong / total, pairs[-3:]


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Read lines of handwritten digits.")
    parser.add_argument("--steps", default="8", help="how many passes over the lines; 'small' for a quick run")
    options = parser.parse_args(arguments)
    small = options.steps == "small"
    passes, count, longest, filters, units = (20, 300, 3, 8, 24) if small else (int(options.steps), 2000, 8, 16, 64)

    sj.config.floatX = "float32"
    random = np.random.default_rng(0)
    lasagne.random.set_rng(random)
    pictures, labels = load_digits(return_X_y=True)
    pictures = pictures.reshape(-1, 8, 8) / 16
    trained, held_out = (
        lines(random, pictures[part], labels[part], n, longest)
        for part, n in ((slice(0, 1400), count), (slice(1400, None), count // 10))
    )
    start = time.perf_counter()
    train, evaluate = compile_functions(*build(filters, units), rate=0.01 if small else 0.005)
    print(f"compiled in {time.perf_counter() - start:.1f} s")

    start = time.perf_counter()
    for epoch in range(passes):
        parts = list(batches(*trained, 16 if small else 32))
        losses = [train(*parts[k]) for k in random.permutation(len(parts))]
        wrong, shown = score(evaluate, *held_out)
        seconds = time.perf_counter() - start
        print(f"pass {epoch:3}   loss {np.mean(losses):7.4f}   digits read wrong: {wrong:7.2%}   {seconds:5.1f} s")
    for line, own in shown:
        print("line", "".join(map(str, line)), "  read", "".join(map(str, own)))
    if small or passes >= 8:
        assert wrong < (0.5 if small else 0.1)
    return wrong


if __name__ == "__main__":
    main()
