"""Biquads against SciPy's filters, and against what the cookbook says of them."""

import numpy as np
import pytest
from scipy import signal as scipy_signal

import scanjit as sj

KINDS = ["lowpass", "highpass", "bandpass", "notch", "allpass", "peak", "lowshelf", "highshelf"]


@pytest.fixture
def filters(read_example):
    return read_example("filters")


def sections(coefficients):
    """As SciPy has them: b0 b1 b2 1 a1 a2, one a row."""
    return np.insert(np.atleast_2d(coefficients), 3, 1.0, axis=1)


@pytest.mark.parametrize("mode", ["reference", "emulate"])
def test_banks_and_series_against_scipy(filters, mode, rng):
    coefficients = [filters.biquad(kind, rng.uniform(200, 20000), 1.0, rng.uniform(-6, 6)) for kind in KINDS]
    impulse, noise = np.eye(1, 40)[0], rng.normal(size=40)
    x, c = sj.vector(), sj.matrix()
    run = sj.function([x, c], [filters.bank(c, x), filters.series([c[:, i] for i in range(3)], x)], mode=mode)
    for values in (impulse, noise):
        side_by_side, one_after_another = run(values, np.stack(coefficients, axis=1))
        for i, own in enumerate(coefficients):
            wanted = scipy_signal.sosfilt(sections(own), values)
            np.testing.assert_allclose(side_by_side[:, i], wanted, rtol=1e-10, atol=1e-12)
        wanted = scipy_signal.sosfilt(sections(coefficients[:3]), values)
        np.testing.assert_allclose(one_after_another, wanted, rtol=1e-10, atol=1e-12)


def test_designs(filters):
    f = 3000.0
    at = lambda kind, frequency, **kwargs: filters.response(filters.biquad(kind, f, **kwargs), [frequency])[0]
    half = 20 * np.log10(np.sqrt(0.5))
    nyquist = filters.RATE / 2
    np.testing.assert_allclose(
        [at("lowpass", 0), at("lowpass", f), at("highpass", nyquist), at("highpass", f)], [0, half, 0, half], atol=1e-9
    )
    assert at("lowpass", nyquist) < -200 and at("highpass", 0) < -200 and at("notch", f) < -200
    np.testing.assert_allclose([at("bandpass", f, quality=3.0), at("notch", 0), at("allpass", 5000)], 0, atol=1e-9)
    peak = lambda frequency: at("peak", frequency, quality=2.0, gain=7.0)
    np.testing.assert_allclose([peak(0), peak(f), peak(nyquist)], [0, 7, 0], atol=1e-9)
    for kind, low, high in [("lowshelf", 7, 0), ("highshelf", 0, 7)]:
        found = [at(kind, frequency, gain=7.0) for frequency in (0, f, nyquist)]
        np.testing.assert_allclose(found, [low, 3.5, high], atol=1e-9)
    with pytest.raises(ValueError, match="no kind of filter: 'comb'"):
        filters.biquad("comb", f)


@pytest.mark.parametrize("kind", ["lowpass", "highpass", "bandpass", "notch"])
def test_low_and_high_passes_are_those_of_scipy(filters, kind):
    """A second-order Butterworth filter is a biquad with Q of the root of a half; a notch is the one SciPy designs."""
    quality = 1.7
    if kind in ("lowpass", "highpass"):
        b, a = scipy_signal.butter(2, 3000.0, kind, fs=filters.RATE)
        ours = filters.biquad(kind, 3000.0)
        np.testing.assert_allclose(ours, [*b, *a[1:]], rtol=1e-9)
    else:  # both have a bandwidth that is prewarped in its own way: they meet where the frequency is low
        design = scipy_signal.iirnotch if kind == "notch" else scipy_signal.iirpeak
        b, a = design(100.0, quality, fs=filters.RATE)
        np.testing.assert_allclose(filters.biquad(kind, 100.0, quality), [*b, *a[1:]], rtol=1e-4, atol=1e-6)


def test_the_example(filters, capsys):
    filters.main(["--steps", "small"])  # asserts itself that it finds the gains
    assert "found, dB" in capsys.readouterr().out
