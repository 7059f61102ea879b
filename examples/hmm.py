"""The dishonest casino: a hidden Markov model, learned from dice alone.

A casino has a fair die and a loaded one, and changes between them now and then (the example of Durbin, Eddy, Krogh
and Mitchison, 1998). From the faces alone, a hidden Markov model learns how often the dice change and how the loaded
one falls, and then says when it was played.

Only the forward recursion is written down, in log space. All the rest is a derivative of it: the probability of each
state at each step is the gradient of the log likelihood by the logarithms of the emissions, and the expected counts
of Baum and Welch's algorithm are its gradients by the logarithms of the parameters. The most likely path (Viterbi,
1967) is the same scan with a maximum for the sum, and a scan that goes back.

    python examples/hmm.py                               # in some seconds
    python examples/hmm.py --plot casino.png             # a picture of it (needs matplotlib)
    python examples/hmm.py --steps small                 # all in small, in a moment
"""

import argparse
import time

import numpy as np
from support import picture

import scanjit as sj

STATES = ("fair", "loaded")
START = np.array([0.5, 0.5])
MOVES = np.array([[0.95, 0.05], [0.10, 0.90]])
FACES = np.array([[1 / 6] * 6, [0.1] * 5 + [0.5]])


def simulate(random, games, rolls):
    """Which die was played and what it showed, each (games, rolls)."""
    states, faces = np.empty((2, games, rolls), np.int64)
    for game in range(games):
        state = random.choice(2, p=START)
        for roll in range(rolls):
            states[game, roll], faces[game, roll] = state, random.choice(6, p=FACES[state])
            state = random.choice(2, p=MOVES[state])
    return states, faces


def log_likelihood(log_start, log_moves, log_emissions):
    """Of one sequence: `log_emissions[t, i]` is of what was seen at t, if the state is i (the forward algorithm)."""

    def step(log_emission, log_alpha):
        return sj.logsumexp(log_alpha[:, None] + log_moves, axis=0) + log_emission

    first = log_start + log_emissions[0]
    return sj.logsumexp(sj.foldl(step, log_emissions[1:], first))


def viterbi(log_start, log_moves, log_emissions):
    """The most likely states of one sequence, and the logarithm of the likelihood of them and of what was seen."""

    def forward(log_emission, best):
        ways = best[:, None] + log_moves
        return ways.max(axis=0) + log_emission, ways.argmax(axis=0)

    first = log_start + log_emissions[0]
    bests, came_from = sj.scan(forward, log_emissions[1:], [first, None])
    bests = np.concatenate([first[None], bests])
    last = bests[-1].argmax()
    path = sj.scan(lambda back, state: back[state], came_from, last, go_backwards=True)
    return np.concatenate([path[::-1], last[None]]), bests[-1].max()


def expected_counts(log_start, log_moves, log_faces, games):
    """How often each state begins, follows on another, and shows a face, in all games; and their log likelihood."""
    of_game = lambda faces: log_likelihood(log_start, log_moves, log_faces.T[faces])
    total = sj.vmap(of_game)(games).sum()
    return sj.grad(total, [log_start, log_moves, log_faces]), total


def compile_baum_welch(parameters, mode="numba"):
    """A function of games that makes one step of Baum and Welch's and returns the log likelihood before it.

    `parameters` are shared variables: the probabilities of the first state, of moves, of faces.
    """
    games = sj.lmatrix("games")
    counts, total = expected_counts(*[np.log(p) for p in parameters], games)
    updates = {p: count / count.sum(axis=-1, keepdims=True) for p, count in zip(parameters, counts, strict=True)}
    return sj.function([games], total, updates=updates, name="baum_welch", mode=mode)


def compile_decoding(parameters, mode="numba"):
    """A function of games: the probabilities of states (game, roll, state), and the most likely ones (game, roll)."""
    games = sj.lmatrix("games")
    log_start, log_moves, log_faces = (np.log(p) for p in parameters)
    emissions = log_faces.T[games]
    totals = sj.vmap(lambda e: log_likelihood(log_start, log_moves, e))(emissions)
    paths, _ = sj.vmap(lambda e: viterbi(log_start, log_moves, e))(emissions)
    return sj.function([games], [sj.grad(totals.sum(), emissions), paths], name="decoding", mode=mode)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="A hidden Markov model, learned from dice alone.")
    parser.add_argument("--steps", default="200", help="how many steps of learning; 'small' for a quick run")
    parser.add_argument("--mode", default="numba", choices=["numba", "reference", "emulate"])
    parser.add_argument("--plot", help="save a picture to this file")
    options = parser.parse_args(arguments)
    small = options.steps == "small"
    steps, games, rolls = (20, 8, 100) if small else (int(options.steps), 64, 300)
    states, faces = simulate(np.random.default_rng(0), games, rolls)

    guess = [np.array([0.5, 0.5]), np.array([[0.8, 0.2], [0.2, 0.8]]), np.array([[1.0] * 6, [0.9] * 5 + [1.5]]) / 6]
    parameters = [sj.shared(p, name) for p, name in zip(guess, ("start", "moves", "faces"), strict=True)]
    start = time.perf_counter()
    learn = compile_baum_welch(parameters, options.mode)
    decode = compile_decoding(parameters, options.mode)
    print(f"compiled in {time.perf_counter() - start:.1f} s")
    likelihoods = [float(learn(faces)) for _ in range(steps)]
    print(f"log likelihood of {games} games: {likelihoods[0]:.2f} -> {likelihoods[-1]:.2f} in {steps} steps")
    assert (np.diff(likelihoods) > -1e-9 * abs(likelihoods[0])).all()  # no step of Baum and Welch's makes it less

    moves, shown = (p.get_value() for p in parameters[1:])
    for i, name in enumerate(STATES):
        print(f"the {name} die stays {moves[i, i]:.3f} (true {MOVES[i, i]:.3f});", end=" ")
        print("its faces", *(f"{p:.3f}" for p in shown[i]))
    probabilities, paths = decode(faces)
    share = lambda guessed: 100 * np.mean(guessed == states)
    print(f"right: {share(probabilities.argmax(axis=2)):.1f} % by the probabilities, {share(paths):.1f} % by the path")
    assert np.mean(paths == states) > 0.7
    if options.plot:
        with picture(options.plot) as axes:
            axes.fill_between(np.arange(rolls), states[0], step="mid", color="0.85", label="the loaded die was played")
            axes.plot(probabilities[0, :, 1], label="its probability")
            axes.step(np.arange(rolls), paths[0], "--", where="mid", lw=1, label="the most likely path")
            axes.plot(faces[0] / 5, "k.", ms=2, label="the face")
            axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4)


if __name__ == "__main__":
    main()
