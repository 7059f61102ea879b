"""Label every step of sequences of different lengths, from what was before it and what comes after.

The symbols are letters and quotation marks. Which letters are quoted? Those behind an opening mark, but only if a
closing one follows: one has to look back and ahead, so the network is a bidirectional LSTM. Sequences of about the same
length are trained together, masks say where they end, and training stops when the loss on other sequences does not
get better.

    python examples/sequence_labelling.py                # in some seconds
    python examples/sequence_labelling.py --steps small  # all in small, in a moment
"""

import argparse
import time

import numpy as np

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like.training import EarlyStopping, minibatches, progress

SYMBOLS = '"abcdef'
LABELS = {"plain": " ", "quoted": "^", "mark": "."}


def generate(random, count, longest):
    """Sequences of numbers of symbols, and of numbers of labels."""
    sequences, labels = [], []
    for length in random.integers(3, longest + 1, count):
        symbols = random.integers(1, len(SYMBOLS), length)
        symbols[random.uniform(size=length) < 0.12] = 0
        is_mark = symbols == 0
        opened, followed = np.cumsum(is_mark) % 2 == 1, np.cumsum(is_mark[::-1])[::-1] > 0
        sequences.append(symbols)
        labels.append(np.where(is_mark, 2, opened & followed))
    return sequences, labels


def build(units):
    """Symbols (batch, time) and a mask in, probabilities of labels (batch, time, labels) out."""
    l_in = lasagne.layers.InputLayer((None, None), sj.lmatrix("symbols"))
    l_mask = lasagne.layers.InputLayer((None, None))
    l_embed = lasagne.layers.EmbeddingLayer(l_in, len(SYMBOLS), 8)
    l_lstm = lasagne.layers.LSTMLayer(l_embed, units, mask_input=l_mask)
    l_both = lasagne.layers.Bidirectional(l_lstm, merge="concat")
    softmax = lasagne.nonlinearities.softmax
    l_out = lasagne.layers.DenseLayer(l_both, len(LABELS), nonlinearity=softmax, num_leading_axes=2)
    return l_in, l_mask, l_out


def compile_functions(l_in, l_mask, l_out, rate):
    """Functions of (symbols, mask, labels): both return the loss; one trains, the other labels."""
    labels, mask = sj.lmatrix("labels"), l_mask.input_var
    predictions = lasagne.layers.get_output(l_out)
    losses = lasagne.objectives.categorical_crossentropy(predictions, labels)
    loss = lasagne.objectives.aggregate(losses, mask, mode="normalized_sum")
    params = lasagne.layers.get_all_params(l_out, trainable=True)
    updates = lasagne.updates.adam(loss, params, learning_rate=rate)
    inputs = [l_in.input_var, mask, labels]
    train = sj.function(inputs, loss, updates=updates, name="train")
    return train, sj.function(inputs, [loss, sj.argmax(predictions, axis=2)], name="evaluate")


def score(evaluate, sequences, labels):
    """The loss per step and the share of steps that are labelled right, over all sequences."""
    loss = right = total = 0.0
    for x, mask, t in minibatches(sequences, labels, 256, shuffle=False):
        own, predicted = evaluate(x, mask, t)
        loss, right, total = loss + own * mask.sum(), right + ((predicted == t) * mask).sum(), total + mask.sum()
    return float(loss / total), float(right / total)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Label every step of sequences of different lengths.")
    parser.add_argument("--steps", default="15", help="how many passes over the data at most; 'small' for a quick run")
    options = parser.parse_args(arguments)
    small = options.steps == "small"
    passes, count, longest, units = (8, 200, 12, 16) if small else (int(options.steps), 3000, 60, 32)

    sj.config.floatX = "float32"
    random = np.random.default_rng(0)
    lasagne.random.set_rng(random)
    sequences, labels = generate(random, count, longest)
    held_out = generate(random, count // 5, longest)
    start = time.perf_counter()
    train, evaluate = compile_functions(*build(units), rate=0.02 if small else 0.01)
    print(f"compiled in {time.perf_counter() - start:.1f} s")

    start, stopping = time.perf_counter(), EarlyStopping(patience=3, min_delta=1e-3)
    for epoch in range(passes):
        batches = minibatches(sequences, labels, batch_size=16 if small else 64)
        train_loss = np.mean([train(*batch) for batch in progress(batches, f"pass {epoch}")])
        loss, right = score(evaluate, *held_out)
        seconds = time.perf_counter() - start
        print(f"pass {epoch:3}   loss {train_loss:.4f}, held out {loss:.4f}   right {right:7.2%}   {seconds:5.1f} s")
        if stopping(loss):
            break

    ((x, mask, t),) = minibatches(held_out[0][:4], held_out[1][:4], 4, shuffle=False)
    marks = list(LABELS.values())
    for symbols, labelled, own in zip(x, evaluate(x, mask, t)[1], mask, strict=True):
        length = int(own.sum())
        print(
            "\n" + "".join(SYMBOLS[i] for i in symbols[:length]) + "\n" + "".join(marks[i] for i in labelled[:length])
        )

    often = max(np.bincount(np.concatenate(held_out[1]))) / sum(map(len, held_out[1]))
    print(f"\nright: {right:.2%}; by always giving the most frequent label: {often:.2%}")
    if small or passes >= 15:
        assert right > (often + 0.1 if small else 0.98)


if __name__ == "__main__":
    main()
