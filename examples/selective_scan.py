"""A selective scan learns what to remember: selective copying with an S6 network.

Some letters stand among blanks, at places that differ from sequence to sequence; after them come question marks, and at
each the next of the letters has to be said, in order. A recurrence whose weights do not depend on what it reads cannot
tell letters from blanks. S6 (Gu and Dao, "Mamba", 2023) can: how far its state moves, what goes in and what is read
out are functions of the input. The recurrence of all states is linear, and the scan of it four lines.

    python examples/selective_scan.py                    # in less than a minute
    python examples/selective_scan.py --plot copying.png # a picture of the learning (needs matplotlib)
    python examples/selective_scan.py --steps small      # all in small, in a moment
"""

import argparse
import time

import numpy as np
from support import picture

import lasagne_like as lasagne
import scanjit as sj

LETTERS = 8  # numbers 1 to 8
QUESTION = LETTERS + 1  # and 0 is a blank


def generate(random, batch, places, letters):
    """Sequences (batch, places + letters), and the letters to be said at the last places of them."""
    wanted = random.integers(1, LETTERS + 1, (batch, letters))
    sequences = np.zeros((batch, places + letters), np.int64)
    for row, word in zip(sequences, wanted, strict=True):
        row[np.sort(random.choice(places, letters, replace=False))] = word
    sequences[:, places:] = QUESTION
    return sequences, wanted


def selective_scan(u, delta, A, B, C):
    """y_t = C_t h_t, where h_t = exp(delta_t A) h_{t-1} + delta_t u_t B_t: a state of N numbers for each feature.

    `u` and `delta` are (time, batch, D), `B` and `C` (time, batch, N), `A` is (D, N). The result is as `u`.
    """

    def step(u, delta, B, C, h):
        h = np.exp(delta[:, :, None] * A) * h + (delta * u)[:, :, None] * B[:, None, :]
        return (h * C[:, None, :]).sum(axis=2), h

    start = sj.zeros((u.shape[1], *A.shape), u.dtype)
    return sj.scan(step, [u, delta, B, C], [None, start])[0]


class Network:
    """Embedding, blocks of a gated selective scan each, and scores of letters. `parameters`: shared variables."""

    def __init__(self, features, states, blocks):
        self.parameters, self.states = {}, states
        self.add("embedding", lasagne.init.Normal(1.0), (QUESTION + 1, features))
        for k in range(blocks):
            for name, outputs in [("in", features), ("gate", features), ("delta", features), ("out", features)]:
                self.add(f"{name}{k}", lasagne.init.GlorotUniform(), (features, outputs))
            for name in "BC":
                self.add(f"{name}{k}", lasagne.init.GlorotUniform(), (features, states))
            self.add(
                f"A{k}", lambda shape: np.log(np.tile(np.arange(1, shape[1] + 1.0), (shape[0], 1))), (features, states)
            )
            self.add(f"delta_bias{k}", lasagne.init.Uniform((-4.0, -1.0)), (features,))
        self.add("scores", lasagne.init.GlorotUniform(), (features, QUESTION))
        self.blocks = blocks

    def add(self, name, init, shape):
        value = init(shape)
        self.parameters[name] = sj.shared(np.asarray(value, sj.config.floatX), name)

    def block(self, x, k):
        """(time, batch, features) to the same, added to what was there."""
        p = lambda name: self.parameters[f"{name}{k}"]
        z = x / np.sqrt((x**2).mean(axis=2, keepdims=True) + 1e-5)
        u = sj.silu(z @ p("in"))
        delta = sj.softplus(u @ p("delta") + p("delta_bias"))
        y = selective_scan(u, delta, -np.exp(p("A")), u @ p("B"), u @ p("C"))
        return x + (y + u) * sj.silu(z @ p("gate")) @ p("out")

    def logits(self, sequences, letters):
        """Scores of what is said at the last places: (letters, batch, symbols)."""
        x = self.parameters["embedding"][sequences.T]
        for k in range(self.blocks):
            x = self.block(x, k)
        return x[-letters:] @ self.parameters["scores"]


def compile_functions(network, letters, mode):
    """Functions of (sequences, wanted): one trains, the other returns the share of right letters."""
    sequences, wanted, rate = sj.lmatrix("sequences"), sj.lmatrix("wanted"), sj.scalar("rate")
    logits = network.logits(sequences, letters)
    right = sj.one_hot(wanted.T, QUESTION, dtype=sj.config.floatX)
    loss = -(sj.log_softmax(logits, axis=2) * right).sum(axis=2).mean()
    updates = lasagne.updates.adam(loss, list(network.parameters.values()), rate)
    train = sj.function([sequences, wanted, rate], loss, updates=updates, name="train", mode=mode)
    share = sj.cast(sj.equal(logits.argmax(axis=2), wanted.T), sj.config.floatX).mean()
    return train, sj.function([sequences, wanted], share, name="evaluate", mode=mode)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Selective copying with an S6 network.")
    parser.add_argument("--steps", default="1000", help="how many steps of training; 'small' for a quick run")
    parser.add_argument("--mode", default="numba", choices=["numba", "reference", "emulate"])
    parser.add_argument("--plot", help="save a picture to this file")
    options = parser.parse_args(arguments)
    small = options.steps == "small"
    steps, places, letters, features, states = (60, 6, 1, 16, 4) if small else (int(options.steps), 20, 3, 32, 8)

    sj.config.floatX = "float32"
    random = np.random.default_rng(0)
    lasagne.random.set_rng(np.random.default_rng(1))
    start = time.perf_counter()
    train, evaluate = compile_functions(Network(features, states, 1 if small else 2), letters, options.mode)
    print(f"compiled in {time.perf_counter() - start:.1f} s")

    test = generate(random, 500, places, letters)
    start, shares = time.perf_counter(), []
    for i in range(steps):
        loss = train(*generate(random, 32, places, letters), np.float32(0.01 * (1 - i / steps)))
        if (i + 1) % (steps // 10 or 1) == 0:
            shares.append((i + 1, float(evaluate(*test))))
            print(f"step {i + 1:5}   loss {loss:.4f}   right {100 * shares[-1][1]:5.1f} %", end="")
            print(f"   {time.perf_counter() - start:5.1f} s")
    print(f"\nby chance, {100 / LETTERS:.1f} % of the letters would be right")
    if options.plot:
        with picture(options.plot) as axes:
            axes.plot(*zip(*shares, strict=True), "o-", label="letters that are right")
            axes.axhline(1 / LETTERS, ls=":", color="k", label="by chance")
            axes.set_xlabel("step")
            axes.legend()
    if small or steps >= 1000:
        assert shares[-1][1] > (0.4 if small else 0.9)


if __name__ == "__main__":
    main()
