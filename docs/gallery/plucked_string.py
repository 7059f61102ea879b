"""
A plucked string
================

Karplus and Strong (1983): noise goes around a delay line, and is smoothed a little each time. ``taps=[-n]``
reads what was ``n`` samples ago.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj

RATE, DELAY = 44_100, 200


@sj.jit
def pluck(noise):
    step = lambda now, before: 0.498 * (now + before)
    return sj.scan(step, outputs_info=dict(initial=noise, taps=[-DELAY, -DELAY - 1]), n_steps=2 * RATE)


sound = pluck(np.random.default_rng(0).uniform(-1, 1, DELAY + 1))
plt.specgram(sound, NFFT=2048, Fs=RATE, noverlap=1024)
plt.ylim(0, 8000)
plt.xlabel("s")
plt.ylabel("Hz")
plt.show()
