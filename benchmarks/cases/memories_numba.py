"""The recurrences of `memories` as one writes them for Numba: plain loops, without fast-math or threads."""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np
from numba import njit

compiled = njit(error_model="numpy", cache=True)


@compiled
def fading_counts(x):
    """How often each of 32 places was seen; what is long ago counts less."""
    counts = np.zeros(32)
    for t in range(x.shape[0]):
        for j in range(32):
            counts[j] *= 0.999
        counts[x[t]] += 1.0
    return counts


@compiled
def adam(x):
    """Adam's path to the minimum of a noisy parabola."""
    path, w, m, v, t = np.empty_like(x), 1.0, 0.0, 0.0, 0.0
    for i in range(x.shape[0]):
        g, t = x[i] + w, t + 1.0
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w -= 0.01 * (m / (1.0 - 0.9**t)) / (math.sqrt(v / (1.0 - 0.999**t)) + 1e-8)
        path[i] = w
    return path


@compiled
def tanks(x, p):
    """The level of the last of eight tanks that flow into each other."""
    levels, h = np.empty_like(x), np.ones(8)
    for t in range(x.shape[0]):
        flow = x[t]
        for j in range(8):
            out = p[0] * math.sqrt(h[j])
            h[j] += p[1] * (flow - out)
            flow = out
        levels[t] = h[7]
    return levels


@compiled
def adaptive(x, d):
    """The errors of an adaptive filter of the last 16 samples."""
    errors, last, w = np.empty_like(x), np.zeros(16), np.zeros(16)
    for t in range(x.shape[0]):
        for j in range(15, 0, -1):
            last[j] = last[j - 1]
        last[0], found, power = x[t], 0.0, 1e-3
        for j in range(16):
            found += w[j] * last[j]
            power += last[j] * last[j]
        error = d[t] - found
        rate = 0.1 * error / power
        for j in range(16):
            w[j] += rate * last[j]
        errors[t] = error
    return errors


@compiled
def traces(s, a, n, reward):
    """The values of 16 states, learnt from differences in time with traces; actions do not count."""
    value, trace = np.zeros(16), np.zeros(16)
    for t in range(s.shape[0]):
        error = reward[t] + 0.9 * value[n[t]] - value[s[t]]
        for j in range(16):
            trace[j] *= 0.7
        trace[s[t]] += 1.0
        for j in range(16):
            value[j] += 0.1 * error * trace[j]
    return value


@compiled
def q_learning(s, a, n, reward):
    """The values of four actions in six states."""
    Q = np.zeros((6, 4))
    for t in range(s.shape[0]):
        best = Q[n[t], 0]
        for j in range(1, 4):
            best = max(best, Q[n[t], j])
        Q[s[t], a[t]] += 0.1 * (reward[t] + 0.9 * best - Q[s[t], a[t]])
    return Q


@compiled
def moving_maximum(x):
    """The maximum of the last 16 samples, which a ring keeps."""
    path, ring, k = np.empty_like(x), np.full(16, -1e300), 0
    for t in range(x.shape[0]):
        ring[k] = x[t]
        k = 0 if k == 15 else k + 1
        most = ring[0]
        for j in range(1, 16):
            most = max(most, ring[j])
        path[t] = most
    return path


@compiled
def moving_sum(x):
    """The sum of the last 20 samples, which a ring keeps."""
    path, ring, k, total = np.empty_like(x), np.zeros(20), 0, 0.0
    for t in range(x.shape[0]):
        total = total + x[t] - ring[k]
        ring[k] = x[t]
        k = 0 if k == 19 else k + 1
        path[t] = total
    return path


@compiled
def plucked_string(x, line):
    """A string that is plucked, after Karplus and Strong: a ring whose neighbours are averaged."""
    path, ring, k, n = np.empty_like(x), line.copy(), 0, line.shape[0]
    for t in range(x.shape[0]):
        after = 0 if k == n - 1 else k + 1
        y = ring[k]
        ring[k] = x[t] + 0.498 * (y + ring[after])
        path[t] = y
        k = after
    return path


@compiled
def best_price(k, q):
    """The first of 24 prices of an order book with a size, after each order."""
    found, book = np.empty_like(k), np.zeros(24)
    for t in range(k.shape[0]):
        book[k[t]] = max(book[k[t]] + q[t], 0.0)
        best = 0
        for j in range(24):
            if book[j] > 0.0:
                best = j
                break
        found[t] = best
    return found


@compiled
def debounce(x):
    """A switch that counts as moved once it has been in its new place three times."""
    path, state, count = np.empty_like(x), 0, 0
    for t in range(x.shape[0]):
        if x[t] == state:
            count = 0
        else:
            count += 1
            if count >= 3:
                state, count = x[t], 0
        path[t] = state
    return path


@compiled
def waiting_sorted(x):
    """When the first of four servers is free, if each customer goes to the first: the times are kept in order."""
    path, free = np.empty_like(x), np.zeros(4)
    for t in range(x.shape[0]):
        time, j = free[0] + x[t], 0
        while j < 3 and free[j + 1] < time:
            free[j] = free[j + 1]
            j += 1
        free[j] = time
        path[t] = free[0]
    return path


@compiled
def heat_ring(x):
    """Heat in a ring of 16 places, one of which is heated."""
    now, new = np.zeros(16), np.zeros(16)
    for t in range(x.shape[0]):
        for j in range(16):
            new[j] = now[j] + 0.1 * (now[j - 1 if j > 0 else 15] - 2.0 * now[j] + now[j + 1 if j < 15 else 0])
        new[0] += x[t]
        now, new = new, now
    return now


@compiled
def best_three(x):
    """The three largest samples, which are kept in order."""
    low = middle = high = -1e300
    for t in range(x.shape[0]):
        now = x[t]
        if now > low:
            if now > high:
                low, middle, high = middle, high, now
            elif now > middle:
                low, middle = middle, now
            else:
                low = now
    return np.array([low, middle, high])


@compiled
def bounded_queue(op, x):
    """What is taken from a queue of at most eight numbers, 0 where it is empty."""
    taken, ring, head, size = np.zeros_like(x), np.zeros(8), 0, 0
    for t in range(x.shape[0]):
        if op[t] == 0:
            if size < 8:
                ring[(head + size) & 7] = x[t]
                size += 1
        elif size > 0:
            taken[t] = ring[head]
            head = (head + 1) & 7
            size -= 1
    return taken


@compiled
def traffic_light(car, walker):
    """The state of a traffic light, which changes when someone comes, but not too soon."""
    states, state, age = np.empty_like(car), 0, 0
    for t in range(car.shape[0]):
        age += 1
        if state == 0:
            if age >= 8 and walker[t] == 1:
                state, age = 1, 0
        elif state == 1:
            if age >= 3:
                state, age = 2, 0
        elif age >= 5 and car[t] == 1:
            state, age = 0, 0
        states[t] = state
    return states


@compiled
def held_peak(x):
    """The last peak, which is forgotten after fifty steps."""
    path, peak, age = np.empty_like(x), 0.0, 0
    for t in range(x.shape[0]):
        if x[t] > peak or age >= 50:
            peak, age = x[t], 0
        else:
            age += 1
        path[t] = peak
    return path


@compiled
def trigger(x):
    """A switch that goes on above 1, and off below -1."""
    path, on = np.empty_like(x), False
    for t in range(x.shape[0]):
        if on:
            if x[t] <= -1.0:
                on = False
        elif x[t] > 1.0:
            on = True
        path[t] = 1.0 if on else 0.0
    return path


@compiled
def piles(x):
    """How many of four piles each sample is above, as in patience sorting: it becomes the top of the next one."""
    places, tops = np.empty(x.shape[0], np.int64), np.full(4, 1e300)
    for t in range(x.shape[0]):
        place = 0
        for j in range(4):
            if tops[j] < x[t]:
                place += 1
        at = min(place, 3)
        tops[at] = min(tops[at], x[t])
        places[t] = place
    return places


@compiled
def drawdown_days(x):
    """The longest time below the highest value so far."""
    top, since, longest = -1e300, 0, 0
    for t in range(x.shape[0]):
        if x[t] >= top:
            top, since = x[t], t
        longest = max(longest, t - since)
    return np.array(longest)


@compiled
def components(x, y, parent):
    """The parents of nodes when pairs of nodes are joined, one after the other."""
    parent = parent.copy()
    for t in range(x.shape[0]):
        a, b = x[t], y[t]
        while parent[a] != a:
            a = parent[a]
        while parent[b] != b:
            b = parent[b]
        parent[a] = b
    return parent
