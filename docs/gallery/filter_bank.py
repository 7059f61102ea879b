"""
A Fourier filter bank
=====================

Windows of a sound, each transformed, filtered in bands and put together again: a step reads a window, and adds what it
made of it to a line of sums.
"""

import matplotlib.pyplot as plt
import numpy as np

import scanjit as sj

SIZE, HOP, BANDS = 512, 128, 24


@sj.jit
def bands_of(sound, filters):
    """The energy in each band, for each window."""
    window = np.hanning(SIZE)

    def energies(start):
        spectrum = np.fft.rfft(sound[start : start + SIZE] * window)
        return np.log(1e-6 + filters @ np.abs(spectrum) ** 2)

    return sj.map(energies, np.arange(0, 16_000 - SIZE, HOP))


edges = np.geomspace(2, SIZE // 2, BANDS + 2)
bins = np.arange(SIZE // 2 + 1)
filters = np.array([np.interp(bins, edges[i : i + 3], [0, 1, 0]) for i in range(BANDS)])
time = np.arange(16_000) / 16_000
sound = np.sin(2 * np.pi * (300 * time + 1500 * time**2)) + 0.3 * np.sin(2 * np.pi * 2500 * time) * (time > 0.5)
plt.figure(figsize=(8, 3))
plt.imshow(bands_of(sound, filters).T, origin="lower", aspect="auto", extent=(0, 1, 0, BANDS))
plt.xlabel("seconds")
plt.ylabel("band")
plt.show()
