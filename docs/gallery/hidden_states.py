"""
Which die was it?
=================

A casino sometimes uses a loaded die. The forward pass of a hidden Markov model gives the probability after
each throw.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj

move = np.array([[0.97, 0.03], [0.06, 0.94]])
face = np.array([[1 / 6] * 6, [0.1] * 5 + [0.5]])


@sj.jit
def probability(throws):
    def step(throw, p):
        p = (p @ move) * sj.constant(face)[:, throw]
        return p / p.sum()

    return sj.scan(step, sequences=throws, outputs_info=sj.constant([0.5, 0.5]))[:, 1]


random = np.random.default_rng(2)
states = [0]
for _ in range(399):
    states.append(random.choice(2, p=move[states[-1]]))
throws = np.array([random.choice(6, p=face[state]) for state in states])
plt.fill_between(range(400), states, step="mid", alpha=0.2, color="C1", label="loaded")
plt.plot(probability(throws), label="probability")
plt.xlabel("throw")
plt.legend()
plt.show()
