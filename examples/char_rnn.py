"""Teach an LSTM to write, one character after the other.

The layers read a text and guess each next character; what they have learned is compared with a bigram model, which
knows how often a character follows another, on a part of the text that neither has seen. Then the same cell, compiled
for one step a call, writes. Without a text of yours it reads nursery rhymes, which it makes itself.

How well it guesses, in nats a character of what it has not seen: of a book about programming (920,000 characters, 120
different ones) 1.62 after 1500 steps, where bigrams reach 2.51.

    python examples/char_rnn.py                          # rhymes, in half a minute
    python examples/char_rnn.py book.txt --steps 3000    # a text of yours
    python examples/char_rnn.py --save rhymes.npz        # keep the parameters
    python examples/char_rnn.py --load rhymes.npz        # do not train, only write
    python examples/char_rnn.py --load rhymes.npz --begin "There was a wise old crow"
    python examples/char_rnn.py --precision bfloat16     # faster training, in half of the memory (needs ml_dtypes)
    python examples/char_rnn.py --steps small            # all in small, in a moment
"""

import argparse
import importlib.util
import sys
import time
from pathlib import Path

import numpy as np

import lasagne_like as lasagne
import scanjit as sj
from lasagne_like.training import Checkpoint, progress


def rhymes(verses, random):
    """Verses about creatures, each of whom did something to the one before: its name has to be remembered."""
    creatures = "cat dog rat cow goat hen fox crow mouse horse sparrow farmer miller maiden sailor piper".split()
    kinds = "little old merry lazy black silver hungry sleepy crooked wise".split()
    deeds = "chased followed found loved tickled teased fed woke greeted painted".split()
    places = ["on the hill", "by the well", "in the barn", "under the moon", "at the mill", "in the morning dew"]
    text = []
    for _ in range(verses):
        creature, kind = random.choice(creatures), random.choice(kinds)
        text.append(f"There was a {kind} {creature} {random.choice(places)},\n")
        for _ in range(random.integers(1, 4)):
            other, another = random.choice(creatures), random.choice(kinds)
            text.append(f"  the {kind} {creature} {random.choice(deeds)} the {another} {other},\n")
            creature, kind = other, another
        text.append(f"  and the {kind} {creature} went home {random.choice(places)}.\n\n")
    return "".join(text)


def read(path, least):
    """The text of a file, which must hold some characters at least."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SystemExit(f"{path} is no text in UTF-8: byte {error.start} does not fit") from error
    except OSError as error:
        raise SystemExit(f"cannot read {path}: {error.strerror}") from error
    if len(text) < least:
        raise SystemExit(f"{path} has {len(text)} characters: too few to learn from, it takes {least}")
    return text


def encode(text, alphabet):
    """The number of each character in the alphabet, which is sorted."""
    characters, inverse = np.unique(np.array(list(text)), return_inverse=True)
    places = {character: i for i, character in enumerate(alphabet)}
    unknown = [character for character in characters.tolist() if character not in places]
    if unknown:
        raise SystemExit(f"these characters were not in the text that was learned from: {' '.join(map(repr, unknown))}")
    return np.array([places[character] for character in characters.tolist()])[inverse]


def build(symbols, units):
    """Characters in, probabilities of the next ones out; the texts may have any length."""
    characters = lasagne.layers.InputLayer((None, None), sj.lmatrix("characters"))
    embedded = lasagne.layers.EmbeddingLayer(characters, input_size=symbols, output_size=16, name="embed")
    forgetgate = lasagne.cells.Gate(b=lasagne.init.Constant(1.0))
    hidden = lasagne.layers.LSTMLayer(embedded, units, forgetgate=forgetgate, peepholes=False, name="lstm")
    network = lasagne.layers.DenseLayer(
        hidden, symbols, nonlinearity=lasagne.nonlinearities.softmax, num_leading_axes=2, name="next"
    )
    return characters, embedded, hidden, network


def loss_per_character(characters, network, precision=None):
    """What is given (characters, and for each the next one), and the loss: symbols, not compiled yet."""
    following = sj.lmatrix("following")
    chances = lasagne.layers.get_output(network, precision=precision)
    loss = lasagne.objectives.categorical_crossentropy(chances, following).mean()
    return [characters.input_var, following], loss


def compile_training(inputs, loss, network, rate):
    """A function that makes one step of Adam and returns the loss before it."""
    params = lasagne.layers.get_all_params(network, trainable=True)
    grads = lasagne.updates.total_norm_constraint(sj.grad(loss, params), max_norm=5.0)
    return sj.function(inputs, loss, updates=lasagne.updates.adam(grads, params, learning_rate=rate), name="train")


def compile_writer(embedded, hidden, network, alphabet):
    """A function that goes on with a text: the cell runs one step a call, with the parameters of the layers."""
    step = lasagne.cells.step_function(hidden)
    given = sj.tensor3("hidden")
    read_out = sj.function([given], lasagne.layers.get_output(network, {hidden: given}))

    def write(beginning, length, random):
        state, text = step.initial_state(batch=1), list(encode(beginning, alphabet))
        vectors = embedded.W.get_value()
        for i in range(len(beginning) + length - 1):
            output, state = step(vectors[[text[i]]], state)
            if i + 1 == len(text):
                chances = read_out(output[None])[0, 0].astype("float64")
                text.append(random.choice(len(alphabet), p=chances / chances.sum()))
        return "".join(alphabet[i] for i in text)

    return write


def bigram_loss(train, test, symbols):
    """The loss per character of the model that looks one character back, fitted to the same text."""
    counts = np.full((symbols, symbols), 0.1)
    np.add.at(counts, (train[:-1], train[1:]), 1)
    chances = counts / counts.sum(axis=1, keepdims=True)
    return -np.log(chances[test[:-1], test[1:]]).mean()


def pieces(text, starts, length):
    """Pieces of a text, and the same one character on."""
    places = starts[:, None] + np.arange(length)
    return text[places], text[places + 1]


def loss_of_text(evaluate, text, window=256, batch=32):
    """The loss per character of a whole text (but for its end), cut into windows."""
    window = min(window, len(text) - 1)
    starts = np.arange(0, len(text) - window, window)
    parts = [starts[i : i + batch] for i in range(0, len(starts), batch)]
    return float(np.average([evaluate(*pieces(text, part, window)) for part in parts], weights=list(map(len, parts))))


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Teach an LSTM to write, one character after the other.")
    parser.add_argument("text", nargs="?", type=Path, help="the text to learn from; by default rhymes")
    parser.add_argument("--steps", default="1000", help="how many steps of training; 'small' for a quick run")
    parser.add_argument("--save", type=Path, help="write the parameters to this file (.npz) at the end")
    parser.add_argument("--load", type=Path, help="take the parameters from this file, and do not train")
    parser.add_argument("--precision", choices=["bfloat16"], help="what products have and gradients keep; else float32")
    parser.add_argument("--begin", help="what it goes on with in the end; by default the first character of the text")
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="a progress bar (needs tqdm); by default on a terminal",
    )
    options = parser.parse_args(arguments)
    small = options.steps == "small"
    steps, units, batch, length = (30, 32, 8, 32) if small else (int(options.steps), 128, 32, 64)

    bar = options.progress
    if bar is None:
        bar = sys.stderr.isatty() and importlib.util.find_spec("tqdm") is not None
    if options.save and not options.save.absolute().parent.is_dir():
        parser.error(f"there is no folder for {options.save}")

    sj.config.floatX = "float32"
    random = np.random.default_rng(0)
    lasagne.random.set_rng(np.random.default_rng(1))
    text = read(options.text, least=20 * length) if options.text else rhymes(100 if small else 1500, random)
    alphabet = sorted(set(text))
    numbers, beginning = encode(text, alphabet), options.begin or text[0]
    encode(beginning, alphabet)  # an error now, not after the training
    train_text, test_text = np.split(numbers, [len(numbers) * 9 // 10])
    print(f"a text of {len(text)} characters, {len(alphabet)} different ones; the last tenth is kept for the test")

    characters, embedded, hidden, network = build(len(alphabet), units)
    inputs, loss = loss_per_character(characters, network, options.precision)
    if options.load:
        known = Checkpoint(options.load, network).load()["alphabet"]
        if known != alphabet:
            raise SystemExit(
                f"{options.load} was learned from another text, one with the characters {''.join(known)!r}"
            )
    else:
        start = time.perf_counter()
        train = compile_training(inputs, loss, network, rate=0.01 if small else 0.004)
        print(f"{lasagne.layers.count_params(network)} parameters, compiled in {time.perf_counter() - start:.1f} s")

        start, losses = time.perf_counter(), []
        for i in progress(range(steps), lambda: f"loss {losses[-1]:.3f}", show=bar):
            starts = random.integers(0, len(train_text) - length, batch)
            losses.append(train(*pieces(train_text, starts, length)))
            if i % 50 == 0 and not bar:
                print(f"step {i:5}   loss {losses[-1]:.3f}   {time.perf_counter() - start:5.1f} s")
        print(f"{steps} steps in {time.perf_counter() - start:.1f} s")

    model = loss_of_text(sj.function(inputs, loss, name="evaluate"), test_text)
    bigram = bigram_loss(train_text, test_text, len(alphabet))
    print(f"\nloss per character (nats), on text that was not seen:   LSTM {model:.3f}   bigrams {bigram:.3f}\n")
    write = compile_writer(embedded, hidden, network, alphabet)
    print(write(beginning, 30 if small else 400, random))

    if options.save:
        Checkpoint(options.save, network).save(alphabet=alphabet)
    if not small and steps >= 300:
        assert model < bigram
    return model, bigram


if __name__ == "__main__":
    main()
