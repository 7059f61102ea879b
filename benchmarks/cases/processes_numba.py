"""The recurrences of `processes` as one writes them for Numba: plain loops, without fast-math or threads."""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np
from numba import njit

compiled = njit(error_model="numpy", cache=True)


@compiled
def seir(x, p):
    """All who are infectious, summed over time."""
    s, e, i, total = 0.99, 0.0, 0.01, 0.0
    for t in range(x.shape[0]):
        new, sick, well = p[0] * (1.0 + 0.1 * x[t]) * s * i, p[1] * e, p[2] * i
        s, e, i = s - new + 0.001 * (1.0 - s), e + new - sick, i + sick - well
        total += i
    return np.array(total)


@compiled
def seir_with_gradient(x, p):
    """With the gradient of the three rates."""
    T = x.shape[0]
    kept = np.empty((T, 3))
    s, e, i, total = 0.99, 0.0, 0.01, 0.0
    for t in range(T):
        kept[t, 0], kept[t, 1], kept[t, 2] = s, e, i
        new, sick, well = p[0] * (1.0 + 0.1 * x[t]) * s * i, p[1] * e, p[2] * i
        s, e, i = s - new + 0.001 * (1.0 - s), e + new - sick, i + sick - well
        total += i
    ds = de = di = d0 = d1 = d2 = 0.0
    for back in range(T):
        t = T - 1 - back
        s, e, i = kept[t, 0], kept[t, 1], kept[t, 2]
        rate, di = 1.0 + 0.1 * x[t], di + 1.0
        new, sick = de - ds, di - de
        d0, d1, d2 = d0 + new * rate * s * i, d1 + sick * e, d2 - di * i
        ds = 0.999 * ds + new * p[0] * rate * i
        de = de + sick * p[1]
        di = di + new * p[0] * rate * s - di * p[2]
    return np.array(total), np.array([d0, d1, d2])


@compiled
def pendulum(x, p):
    """The angle of a damped pendulum that is pushed."""
    path = np.empty_like(x)
    angle, speed = 0.5, 0.0
    for t in range(x.shape[0]):
        speed = speed + 0.01 * (0.1 * x[t] - p[0] * math.sin(angle) - p[1] * speed)
        angle = angle + 0.01 * speed
        path[t] = angle
    return path


@compiled
def implicit(x, p):
    """One of three coupled quantities, by the implicit method of Euler: elimination in a matrix of three bands."""
    path = np.empty_like(x)
    u0, u1, u2 = 1.0, 0.0, 0.0
    for t in range(x.shape[0]):
        h = 0.1 + 0.01 * x[t]
        own, first, second = 1.0 + h * p[0], h * p[1], h * p[2]
        f = first / own
        a11, b1 = own + f * first, u1 - f * u0
        f = second / a11
        a22, b2 = own + f * second, u2 - f * b1
        u2 = b2 / a22
        u1 = (b1 + second * u2) / a11
        u0 = (u0 + first * u1) / own
        path[t] = u0
    return path


@compiled
def wave(x, p, u):
    """A string whose first end is moved."""
    now, before, new = u.copy(), u.copy(), np.zeros_like(u)
    n = u.shape[0]
    for t in range(x.shape[0]):
        for j in range(1, n - 1):
            new[j] = 2.0 * now[j] - before[j] + p[0] * (now[j + 1] - 2.0 * now[j] + now[j - 1])
        new[0], new[n - 1] = x[t], 0.0
        now, before, new = new, now, before
    return now


@compiled
def put(T, p, pays):
    """What an American option is worth at each price, backwards from its end."""
    worth = pays.copy()
    for _ in range(T.shape[0]):
        for j in range(pays.shape[0] - 1):
            worth[j] = max(pays[j], p[0] * worth[j] + p[1] * worth[j + 1])
    return worth


@compiled
def backtest(x, p):
    """What a rule earns that buys above the mean, and sells when the price has fallen from its peak."""
    price, mean, peak, cash, held = 100.0, 100.0, 0.0, 0.0, False
    for t in range(x.shape[0]):
        price = price + x[t]
        mean = mean + p[0] * (price - mean)
        if held:
            peak = max(peak, price)
            if price < peak - p[1]:
                cash, held = cash + price, False
        elif price > mean + p[2]:
            cash, peak, held = cash - price, price, True
    return np.array(cash + (price if held else 0.0))


@compiled
def cusum(x, p):
    """How often a mean has changed."""
    high = low = alarms = 0.0
    for t in range(x.shape[0]):
        high, low = max(0.0, high + x[t] - p[0]), max(0.0, low - x[t] - p[0])
        if high > p[1] or low > p[1]:
            alarms += 1.0
            high = low = 0.0
    return np.array(alarms)


@compiled
def tracker(x, p):
    """The place of something that moves, without what lies too far away."""
    path = np.empty_like(x)
    place = speed = lost = 0.0
    for t in range(x.shape[0]):
        place = place + speed
        r = x[t] - place
        if abs(r) < p[2]:
            place, speed, lost = place + p[0] * r, speed + p[1] * r, 0.0
        else:
            lost += 1.0
            if lost > 3.0:
                speed = speed * 0.5
        path[t] = place
    return path


@compiled
def servers(arrives, lasts):
    """How long customers wait for the first of four servers."""
    waits, free = np.empty_like(arrives), np.zeros(4)
    for t in range(arrives.shape[0]):
        k = 0
        for i in range(1, 4):
            if free[i] < free[k]:
                k = i
        begins = max(arrives[t], free[k])
        waits[t] = begins - arrives[t]
        free[k] = begins + lasts[t]
    return waits


@compiled
def echo(x, p):
    """An echo after 25 samples."""
    path, line = np.empty_like(x), np.zeros(25)
    for t in range(x.shape[0]):
        k = t % 25
        line[k] = x[t] + p[0] * line[k]
        path[t] = line[k]
    return path


@compiled
def automaton(x, table):
    """How often an automaton comes to its fourth state."""
    state = count = 0
    for t in range(x.shape[0]):
        state = table[state, x[t]]
        if state == 3:
            count += 1
    return np.array(count)


@compiled
def checksum(x, table):
    """A cyclic redundancy check of 32 bits."""
    c = 0xFFFFFFFF
    for t in range(x.shape[0]):
        c = table[(c ^ x[t]) & 255] ^ (c >> 8)
    return np.array(c)
