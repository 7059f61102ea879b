"""
How a filter answers
====================

The response of a recursive filter to one click, and its spectrum.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj


@sj.jit
def resonator(x, frequency, width):
    r = np.exp(-np.pi * width)
    a, b = 2 * r * np.cos(2 * np.pi * frequency), -r * r
    return sj.scan(
        lambda x, last, before: x + a * last + b * before,
        sequences=x,
        outputs_info=dict(initial=sj.zeros(2), taps=[-1, -2]),
    )


click = np.zeros(4096)
click[0] = 1.0
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3))
for frequency in (0.02, 0.08, 0.2):
    answer = resonator(click, frequency, 0.004)
    left.plot(answer[:150])
    right.plot(np.linspace(0, 0.5, 2049), 20 * np.log10(np.abs(np.fft.rfft(answer))))
left.set_xlabel("sample")
right.set_xlabel("frequency")
right.set_ylabel("dB")
plt.show()
