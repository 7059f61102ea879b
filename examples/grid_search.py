"""Search for the best recurrent network with scikit-learn's grid search, in two processes.

The sequences differ in length. Each is a walk whose steps go on in their direction, turn back, or neither; the network
tells which.

    python examples/grid_search.py                # in a minute or two
    python examples/grid_search.py --steps small  # a small grid
"""

import argparse

import numpy as np

from lasagne_like.estimators import RecurrentClassifier


def generate(random, count):
    """Sequences of steps, and their kinds."""
    memory = {"goes on": 0.7, "turns back": -0.7, "neither": 0.0}
    kinds, sequences = random.choice(list(memory), count), []
    for kind in kinds:
        steps = random.normal(size=random.integers(20, 80))
        for t in range(1, len(steps)):
            steps[t] += memory[kind] * steps[t - 1]
        sequences.append(steps)
    return sequences, kinds


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Search for the best recurrent network.")
    parser.add_argument("--steps", default="30", help="how often to go through the data; 'small' for a quick run")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    from sklearn.model_selection import GridSearchCV  # here, so that --help works without it

    small = options.steps == "small"
    random = np.random.default_rng(0)
    X, y = generate(random, 200 if small else 600)
    held_out = generate(random, 200)

    epochs = 25 if small else int(options.steps)
    model = RecurrentClassifier("gru", epochs=epochs, learning_rate=0.02, random_state=0)
    grid = {"units": [8]} if small else {"cell": ["rnn", "gru", "lstm"], "units": [8, 32]}
    search = GridSearchCV(model, grid, cv=2 if small else 3, n_jobs=options.processes, error_score="raise").fit(X, y)
    for parameters, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
        print(f"{parameters}: {score:.1%}")

    right = search.score(*held_out)
    print(f"best: {search.best_params_}; of sequences that it has not seen, {right:.1%} right")
    if small or epochs >= 30:
        assert right > 0.6
    return right


if __name__ == "__main__":
    main()
