"""Biquads: a bank of filters, and an equalizer that learns by ear.

A biquad is a recurrence of two numbers. Five coefficients make it a low pass, a notch, a peak or a shelf; the formulas
are those of Robert Bristow-Johnson's "Cookbook formulae for audio equalizer biquad filter coefficients". Here one scan
runs a bank of filters side by side, another one sections in series.

The formulas and the loop are differentiable. So an equalizer of five bands finds the gains of an unknown one from what
goes into that one and what comes out, by gradient descent through the filters.

    python examples/filters.py                           # in some seconds
    python examples/filters.py --plot filters.png        # a picture of the responses (needs matplotlib)
    python examples/filters.py --steps small             # all in small, in a moment
"""

import argparse
import time

import numpy as np
from support import picture

import lasagne_like as lasagne
import scanjit as sj

RATE = 48000.0
BANDS = (100.0, 400.0, 1500.0, 5000.0, 12000.0)


def biquad(kind, frequency, quality=0.5**0.5, gain=0.0):
    """The coefficients b0, b1, b2, a1, a2 (with a0 = 1) of a filter; numbers or symbols.

    `frequency` is in Hz, `quality` is Q, and `gain`, of peaks and shelves alone, is in dB.
    """
    angle = 2 * np.pi * frequency / RATE
    cos, alpha, A = np.cos(angle), np.sin(angle) / (2 * quality), 10.0 ** (gain / 40)
    if kind == "lowpass":
        b, a = [(1 - cos) / 2, 1 - cos, (1 - cos) / 2], [1 + alpha, -2 * cos, 1 - alpha]
    elif kind == "highpass":
        b, a = [(1 + cos) / 2, -1 - cos, (1 + cos) / 2], [1 + alpha, -2 * cos, 1 - alpha]
    elif kind == "bandpass":  # 0 dB where it is highest
        b, a = [alpha, 0 * alpha, -alpha], [1 + alpha, -2 * cos, 1 - alpha]
    elif kind == "notch":
        b, a = [1 + 0 * alpha, -2 * cos, 1 + 0 * alpha], [1 + alpha, -2 * cos, 1 - alpha]
    elif kind == "allpass":
        b, a = [1 - alpha, -2 * cos, 1 + alpha], [1 + alpha, -2 * cos, 1 - alpha]
    elif kind == "peak":
        b, a = [1 + alpha * A, -2 * cos, 1 - alpha * A], [1 + alpha / A, -2 * cos, 1 - alpha / A]
    elif kind in ("lowshelf", "highshelf"):
        s = -1 if kind == "lowshelf" else 1  # one is the other with the sign of the cosine changed
        root, up, down = 2 * np.sqrt(A) * alpha, A + 1 + s * (A - 1) * cos, A + 1 - s * (A - 1) * cos
        b = [A * (up + root), -2 * s * A * (A - 1 + s * (A + 1) * cos), A * (up - root)]
        a = [down + root, 2 * s * (A - 1 - s * (A + 1) * cos), down - root]
    else:
        raise ValueError(f"no kind of filter: {kind!r}")
    return np.stack([b[0] / a[0], b[1] / a[0], b[2] / a[0], a[1] / a[0], a[2] / a[0]])


def section(c, x, first, second):
    """One sample through a biquad, or through many side by side: output, new state (direct form II, transposed)."""
    y = c[0] * x + first
    return y, c[1] * x - c[3] * y + second, c[2] * x - c[4] * y


def bank(coefficients, signal):
    """A signal (time,) through K filters at once, whose coefficients are (5, K): (time, K)."""
    rest = sj.zeros_like(coefficients[0])
    step = lambda x, first, second: section(coefficients, x, first, second)
    return sj.scan(step, signal, [None, rest, rest])[0]


def series(sections, signal):
    """A signal (time,) through one filter after the other: a list of coefficients, (5,) each."""

    def step(x, *states):
        new = []
        for k, c in enumerate(sections):
            x, *state = section(c, x, *states[2 * k : 2 * k + 2])
            new += state
        return x, *new

    return sj.scan(step, signal, [None, *[0.0] * (2 * len(sections))])[0]


def response(c, frequencies):
    """By how much filters make a sine louder, in dB, as their transfer functions have it."""
    z = np.exp(-2j * np.pi * np.asarray(frequencies) / RATE)
    c = np.asarray(c)[..., None]
    gains = (c[0] + c[1] * z + c[2] * z**2) / (1 + c[3] * z + c[4] * z**2)
    return 20 * np.log10(np.abs(gains) + 1e-12)


def equalizer(gains, signal):
    """Five bands, each made louder by some dB: shelves at both ends, peaks between them."""
    kinds = ("lowshelf", "peak", "peak", "peak", "highshelf")
    return series(
        [biquad(kind, f, 0.8, gains[i]) for i, (kind, f) in enumerate(zip(kinds, BANDS, strict=True))], signal
    )


def show_bank(count, mode, plot):
    """Compare the responses of a bank, measured with an impulse, with what the transfer functions say."""
    filters = {
        "low pass, 300 Hz": biquad("lowpass", 300),
        "band pass, 1 kHz": biquad("bandpass", 1000, 2.0),
        "high pass, 4 kHz": biquad("highpass", 4000),
        "notch, 2 kHz": biquad("notch", 2000, 1.0),
        "peak of 6 dB, 500 Hz": biquad("peak", 500, 1.0, 6.0),
        "shelf of -6 dB, 6 kHz": biquad("highshelf", 6000, gain=-6.0),
    }
    coefficients = np.stack(list(filters.values()), axis=1)
    c, signal = sj.matrix("coefficients"), sj.vector("signal")
    run = sj.function([c, signal], bank(c, signal), name="bank", mode=mode)
    impulse_responses = run(coefficients, np.eye(1, count)[0])
    frequencies = np.fft.rfftfreq(count, 1 / RATE)
    measured = 20 * np.log10(np.abs(np.fft.rfft(impulse_responses, axis=0)) + 1e-12).T
    heard = [100, 500, 1000, 2000, 6000]
    print(f"{'dB at':24}" + "".join(f"{f:8} Hz" for f in heard))
    for name, values in zip(filters, measured, strict=True):
        print(f"{name:24}" + "".join(f"{np.interp(f, frequencies, values):11.1f}" for f in heard))
    loud = response(coefficients, frequencies) > -40
    np.testing.assert_allclose(measured[loud], response(coefficients, frequencies)[loud], atol=0.1)
    if plot:
        with picture(plot) as axes:
            axes.semilogx(frequencies[1:], measured.T[1:], label=list(filters))
            axes.set(xlabel="Hz", ylabel="dB", xlim=(20, RATE / 2), ylim=(-40, 10))
            axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))


def learn_equalizer(count, steps, mode):
    """Find the gains of an equalizer from noise that went through it."""
    true = np.array([4.0, -6.0, 3.0, -2.0, 5.0])
    signal, wanted, rate = sj.vector("signal"), sj.vector("wanted"), sj.scalar("rate")
    gains = sj.shared(np.zeros(5), "gains")
    loss = ((equalizer(gains, signal) - wanted) ** 2).mean()
    train = sj.function([signal, wanted, rate], loss, updates=lasagne.updates.adam(loss, [gains], rate), mode=mode)
    apply = sj.function([signal], equalizer(sj.constant(true), signal), mode=mode)
    noise = np.random.default_rng(0).normal(size=count)
    heard = apply(noise)
    start = time.perf_counter()
    losses = [train(noise, heard, 0.5 * (1 - i / steps)) for i in range(steps)]
    print(f"\nthe equalizer, after {steps} steps on {count} samples ({time.perf_counter() - start:.1f} s):", end=" ")
    print(f"error {losses[0]:.4f} -> {losses[-1]:.2e}")
    print(f"{'band':12}" + "".join(f"{f:8.0f} Hz" for f in BANDS))
    for name, values in [("true, dB", true), ("found, dB", gains.get_value())]:
        print(f"{name:12}" + "".join(f"{value:11.2f}" for value in values))
    np.testing.assert_allclose(gains.get_value(), true, atol=0.5)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Biquads: a bank of filters, and an equalizer that learns by ear.")
    parser.add_argument("--steps", default="300", help="how many steps of learning; 'small' for a quick run")
    parser.add_argument("--mode", default="numba", choices=["numba", "reference", "emulate"])
    parser.add_argument("--plot", help="save a picture to this file")
    options = parser.parse_args(arguments)
    small = options.steps == "small"
    show_bank(4096, options.mode, options.plot)
    learn_equalizer(600 if small else 20000, 100 if small else int(options.steps), options.mode)


if __name__ == "__main__":
    main()
