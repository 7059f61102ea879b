"""Sorting inside of models: a particle filter, beam search, a loss for rankings, and a sort with useful derivatives.

- The particle filter (Gordon, Salmond and Smith, 1993) follows a state that nobody sees. After each observation it
  draws the likely particles again, by systematic resampling: `cumsum` of the weights, and `searchsorted` of equal steps
  in it.
- Beam search keeps the best few of many sequences: `top_k` of all ways to go on, in each step of a scan.
- ListMLE (Xia and others, 2008) is the likelihood of a ranking: `argsort` of the labels, `logcumsumexp` of the scores.
- SoftSort (Prillo and Eisenschlos, 2020) is a matrix that sorts: nearly a permutation, with a slope everywhere.

    python examples/orders.py                    # in some seconds
    python examples/orders.py --steps small      # all in small, in a moment
"""

import argparse
import time

import numpy as np

import scanjit as sj


def particle_filter(y, first, noise, offsets, stays=0.9, spread=1.0):
    """The mean of the state at each step, and the log likelihood of what was seen. The state is `stays` times the last
    one plus noise; it is seen with an error of standard deviation `spread`. `first` has a number for each particle,
    `noise` one for each step and particle, and `offsets` one between 0 and 1 for each step."""
    count = first.shape[0]
    steps = sj.cast(sj.arange(count), "float64")

    def step(seen, moves, offset, particles, total):
        particles = stays * particles + moves
        log_weights = -0.5 * ((seen - particles) / spread) ** 2 - np.log(spread * np.sqrt(2 * np.pi))
        evidence = sj.logsumexp(log_weights)
        weights = sj.exp(log_weights - evidence)
        drawn = sj.searchsorted(sj.cumsum(weights), (steps + offset) / count)
        drawn = sj.minimum(drawn, count - 1)  # the weights may add up to a little less than 1
        return (weights * particles).sum(), particles[drawn], total + evidence - np.log(1.0 * count)

    means, _, totals = sj.scan(step, [y, noise, offsets], [None, first, sj.constant(0.0)])
    return means, totals[-1]


def beam_search(log_start, log_moves, width):
    """The `width` most likely sequences, the best first, and their log likelihoods: `log_start[k]` is that of a first
    symbol, `log_moves[t, j, k]` that of symbol k after symbol j."""
    kinds = log_start.shape[0]

    def step(moves, scores, last):
        ways = sj.reshape(scores[:, None] + moves[last], (width * kinds,))
        scores, places = sj.top_k(ways, width)
        return scores, places % kinds, places // kinds

    impossible = sj.full((width,), -np.inf)
    begin = sj.top_k(sj.concatenate([log_start, impossible]), width)  # there may be fewer symbols than places
    last = sj.minimum(begin[1], kinds - 1)
    scores, symbols, parents = sj.scan(step, log_moves, [begin[0], last, None])

    def back(symbols, parents, place):
        return symbols[place], parents[place]

    path, places = sj.scan(back, [symbols, parents], [None, sj.arange(width)], go_backwards=True)
    return sj.concatenate([last[places[-1]][None], path[::-1]]), scores[-1]


def ranking_loss(scores, labels):
    """Minus the log likelihood of the order of the labels, the largest first, if items are drawn one after the other
    with probabilities that are the softmax of the scores of those that are left."""
    ordered = scores[sj.argsort(labels)]  # the smallest first: those that are left come before an item
    return (sj.logcumsumexp(ordered) - ordered).sum()


def soft_sort(x, heat):
    """The elements from the largest to the smallest, each a mixture of all; the less heat, the purer."""
    apart = abs(sj.sort(x, descending=True)[:, None] - x[None, :])
    return sj.softmax(-apart / heat, axis=1) @ x


def main(args=None):
    """All four, with what they find."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", choices=("small", "full"), default="full")
    parser.add_argument("--mode", default=None, help="how functions run: see sj.function")
    given = parser.parse_args(args)
    options = {} if given.mode is None else {"mode": given.mode}
    length, count = (20, 50) if given.steps == "small" else (500, 1000)
    random = np.random.default_rng(0)

    state, states = 0.0, np.empty(length)
    for t in range(length):
        state = states[t] = 0.9 * state + random.normal()
    y, first, noise, offsets = (
        sj.vector("y"),
        sj.tensor((count,), name="first"),
        sj.tensor(("T", count)),
        sj.vector("u"),
    )
    follow = sj.function([y, first, noise, offsets], particle_filter(y, first, noise, offsets), **options)
    data = states + random.normal(size=length), random.normal(size=count), random.normal(size=(length, count))
    follow(*data, random.random(length))
    begin = time.perf_counter()
    means, evidence = follow(*data, random.random(length))
    took = time.perf_counter() - begin
    print(f"particle filter: {length} steps of {count} particles in {1e3 * took:.1f} ms, log likelihood {evidence:.1f}")
    print(f"  error of the means {np.std(means - states):.2f}, of the observations {np.std(data[0] - states):.2f}")

    kinds = 5
    log_start, log_moves = sj.tensor((kinds,), name="log_start"), sj.tensor(("T", kinds, kinds), name="log_moves")
    search = sj.function([log_start, log_moves], beam_search(log_start, log_moves, 4), **options)
    moves = np.log(random.dirichlet(np.ones(kinds), (length, kinds)))
    paths, scores = search(np.log(np.full(kinds, 1 / kinds)), moves)
    print(f"beam search: the best of {paths.shape[1]} sequences has the log likelihood {scores[0]:.1f}")

    scores, labels = sj.vector("scores"), sj.vector("labels")
    loss = ranking_loss(scores, labels)
    learn = sj.function([scores, labels], [loss, sj.grad(loss, scores)], **options)
    found, wanted = np.zeros(6), random.permutation(6).astype("float64")
    for _ in range(100):
        _, slope = learn(found, wanted)
        found -= 0.5 * slope
    print(f"ranking: the scores have the order of the labels: {(np.argsort(found) == np.argsort(wanted)).all()}")

    x = sj.vector("x")
    soft = sj.function([x], [soft_sort(x, 1.0), soft_sort(x, 0.01)], **options)([2.0, 9.0, 4.0])
    print(f"soft sort: {np.round(soft[0], 2)} with heat, {np.round(soft[1], 2)} without")


if __name__ == "__main__":
    main()
