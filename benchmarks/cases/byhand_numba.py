"""The recurrences of `byhand` as one writes them for Numba: plain loops over numbers, without fast-math or threads.

`NAME` is the value of the case, `NAME_with_gradient` a list of the value and the gradients: in one pass forward that
keeps what the way back needs, and one back.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np
from numba import njit

compiled = njit(error_model="numpy", cache=True)

# ---- states of a few numbers -----------------------------------------------------------------------------------------


@compiled
def neuron(x):
    """How often it fires."""
    v, fired = 0.0, 0.0
    for t in range(x.shape[0]):
        v = v + 0.1 * (x[t] - v)
        if v >= 1.0:
            fired += 1.0
            v = 0.0
    return np.array(fired)


@compiled
def biquad(x, p):
    """A filter of second order."""
    y = np.empty_like(x)
    x1 = x2 = y1 = y2 = 0.0
    for t in range(x.shape[0]):
        now = p[0] * x[t] + p[1] * x1 + p[2] * x2 - p[3] * y1 - p[4] * y2
        x2, x1, y2, y1 = x1, x[t], y1, now
        y[t] = now
    return y


@compiled
def cascade(x, p):
    """Three filters of second order, one behind the other."""
    y = np.empty_like(x)
    s = np.zeros((3, 2))
    for t in range(x.shape[0]):
        now = x[t]
        for k in range(3):
            out = p[k, 0] * now + s[k, 0]
            s[k, 0] = p[k, 1] * now - p[k, 3] * out + s[k, 1]
            s[k, 1] = p[k, 2] * now - p[k, 4] * out
            now = out
        y[t] = now
    return y


@compiled
def _lorenz(x, y, z, p):
    return p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z


@compiled
def lorenz(start, p, T):
    """One coordinate at each step of the method of Runge and Kutta."""
    x, y, z = start[0], start[1], start[2]
    h = 0.01
    path = np.empty(T.shape[0])
    for t in range(T.shape[0]):
        a0, a1, a2 = _lorenz(x, y, z, p)
        b0, b1, b2 = _lorenz(x + 0.5 * h * a0, y + 0.5 * h * a1, z + 0.5 * h * a2, p)
        c0, c1, c2 = _lorenz(x + 0.5 * h * b0, y + 0.5 * h * b1, z + 0.5 * h * b2, p)
        d0, d1, d2 = _lorenz(x + h * c0, y + h * c1, z + h * c2, p)
        x += h / 6.0 * (a0 + 2.0 * b0 + 2.0 * c0 + d0)
        y += h / 6.0 * (a1 + 2.0 * b1 + 2.0 * c1 + d1)
        z += h / 6.0 * (a2 + 2.0 * b2 + 2.0 * c2 + d2)
        path[t] = x
    return path


@compiled
def kalman(x, p):
    """The log-likelihood of a random walk seen through noise."""
    m, c, total = 0.0, 1.0, 0.0
    for t in range(x.shape[0]):
        c = c + p[0]
        s = c + p[1]
        v = x[t] - m
        k = c / s
        m = m + k * v
        c = (1.0 - k) * c
        total += math.log(s) + v * v / s
    return np.array(-0.5 * total)


@compiled
def kalman_with_gradient(x, p):
    """With the gradient of both variances."""
    T = x.shape[0]
    spreads, errors = np.empty(T), np.empty(T)
    m, c, total = 0.0, 1.0, 0.0
    for t in range(T):
        c = c + p[0]
        s = c + p[1]
        v = x[t] - m
        spreads[t], errors[t] = c, v
        k = c / s
        m = m + k * v
        c = (1.0 - k) * c
        total += math.log(s) + v * v / s
    dm = dc = d0 = d1 = 0.0
    for i in range(T):
        t = T - 1 - i
        c, v = spreads[t], errors[t]
        s = c + p[1]
        k = c / s
        dk = dm * v - dc * c
        dv = dm * k - v / s
        dc = dc * (1.0 - k) + dk / s
        ds = -dk * k / s - 0.5 / s + 0.5 * v * v / (s * s)
        dm = dm - dv
        d1 += ds
        dc += ds
        d0 += dc
    return np.array(-0.5 * total), np.array([d0, d1])


@compiled
def trend(x, p):
    """The log-likelihood of a level with a slope, both random walks."""
    l, b = 0.0, 0.0
    P00, P01, P11 = 1.0, 0.0, 1.0
    total = 0.0
    for t in range(x.shape[0]):
        l = l + b
        P00, P01, P11 = P00 + 2.0 * P01 + P11 + p[0], P01 + P11, P11 + p[1]
        s = P00 + p[2]
        v = x[t] - l
        k0, k1 = P00 / s, P01 / s
        l, b = l + k0 * v, b + k1 * v
        P00, P01, P11 = P00 - k0 * P00, P01 - k0 * P01, P11 - k1 * P01
        total += math.log(s) + v * v / s
    return np.array(-0.5 * total)


@compiled
def gjr(x, p):
    """The log-likelihood of a variance that losses raise more than gains."""
    h, total = 1.0, 0.0
    for t in range(x.shape[0]):
        r = x[t]
        total += math.log(h) + r * r / h
        h = p[0] + (p[1] + (p[2] if r < 0.0 else 0.0)) * r * r + p[3] * h
    return np.array(-0.5 * total)


@compiled
def gjr_with_gradient(x, p):
    """With the gradient of all four."""
    T = x.shape[0]
    kept = np.empty(T)
    h, total = 1.0, 0.0
    for t in range(T):
        r = x[t]
        kept[t] = h
        total += math.log(h) + r * r / h
        h = p[0] + (p[1] + (p[2] if r < 0.0 else 0.0)) * r * r + p[3] * h
    dh = d0 = d1 = d2 = d3 = 0.0
    for i in range(T):
        t = T - 1 - i
        r, h = x[t], kept[t]
        d0 += dh
        d1 += dh * r * r
        if r < 0.0:
            d2 += dh * r * r
        d3 += dh * h
        dh = dh * p[3] - 0.5 / h + 0.5 * r * r / (h * h)
    return np.array(-0.5 * total), np.array([d0, d1, d2, d3])


@compiled
def ar2(x, p):
    """The sum of squares of what a recurrence of second order gives."""
    y1 = y2 = total = 0.0
    for t in range(x.shape[0]):
        y = p[0] * y1 + p[1] * y2 + x[t]
        y2, y1 = y1, y
        total += y * y
    return np.array(total)


@compiled
def ar2_with_gradient(x, p):
    """With the gradient of both coefficients."""
    T = x.shape[0]
    y = np.zeros(T + 2)
    total = 0.0
    for t in range(T):
        y[t + 2] = p[0] * y[t + 1] + p[1] * y[t] + x[t]
        total += y[t + 2] * y[t + 2]
    g1 = g2 = d0 = d1 = 0.0
    for i in range(T):
        t = T - 1 - i
        g = 2.0 * y[t + 2] + p[0] * g1 + p[1] * g2
        d0 += g * y[t + 1]
        d1 += g * y[t]
        g2, g1 = g1, g
    return np.array(total), np.array([d0, d1])


@compiled
def drawdown(x):
    """The largest fall from the highest value so far."""
    top, worst, level = 0.0, 0.0, 0.0
    for t in range(x.shape[0]):
        level += x[t]
        top = max(top, level)
        worst = max(worst, top - level)
    return np.array(worst)


@compiled
def holt_winters(x, p, season):
    """The sum of squared errors of forecasts by a level, a trend and twelve seasons."""
    level, slope, total = x[0], 0.0, 0.0
    s = season.copy()
    for t in range(x.shape[0]):
        k = t % 12
        e = x[t] - (level + slope + s[k])
        total += e * e
        old = level
        level = level + slope + p[0] * e
        slope = slope + p[1] * (level - old - slope)
        s[k] = s[k] + p[2] * e
    return np.array(total)


@compiled
def sir(x, p):
    """The infected of a population at each step, when contacts vary."""
    path = np.empty_like(x)
    s, i = 0.99, 0.01
    for t in range(x.shape[0]):
        new, gone = p[0] * (1.0 + 0.1 * x[t]) * s * i, p[1] * i
        s, i = s - new + 0.01 * (1.0 - s), i + new - gone
        path[t] = i
    return path


@compiled
def logistic(start, p, T):
    """The logistic map."""
    path = np.empty(T.shape[0])
    x = start[0]
    for t in range(T.shape[0]):
        x = p[0] * x * (1.0 - x)
        path[t] = x
    return path


@compiled
def pid(x, p):
    """What a bounded controller makes of a first-order system."""
    path = np.empty_like(x)
    y = total = before = 0.0
    for t in range(x.shape[0]):
        e = x[t] - y
        total = min(max(total + 0.01 * e, -1.0), 1.0)
        u = p[0] * e + p[1] * total + p[2] * (e - before) / 0.01
        u = min(max(u, -5.0), 5.0)
        y = y + 0.01 * (u - y)
        before = e
        path[t] = y
    return path


@compiled
def runs(x):
    """The longest run of equal symbols, and how many runs there are, as one number."""
    last, length, longest, count = -1, 0, 0, 0
    for t in range(x.shape[0]):
        if x[t] == last:
            length += 1
        else:
            length = 1
            count += 1
            last = x[t]
        longest = max(longest, length)
    return np.array(1_000_000 * longest + count)


# ---- tables, of which a step changes some elements -------------------------------------------------------------------


@compiled
def ratings(i, j, won, start):
    """The ratings of players after some games."""
    r = start.copy()
    for t in range(i.shape[0]):
        change = 0.1 * (won[t] - 1 / (1 + math.exp(r[j[t]] - r[i[t]])))
        r[i[t]] += change
        r[j[t]] -= change
    return r


@compiled
def bandit(x):
    """The mean rewards of five actions; the best is tried, or now and then another."""
    count, mean = np.zeros(5), np.zeros(5)
    for t in range(x.shape[0]):
        action = 0
        if x[t] > 1.0:
            action = int(x[t] * 100.0) % 5
        else:
            for k in range(1, 5):
                if mean[k] > mean[action]:
                    action = k
        count[action] += 1.0
        mean[action] += (x[t] - mean[action]) / count[action]
    return mean


# ---- small vectors and matrices --------------------------------------------------------------------------------------


@compiled
def hmm(x, A, start):
    """The log-likelihood of a hidden Markov model."""
    T, K = x.shape
    a, b = start.copy(), np.empty(K)
    total = 0.0
    for t in range(T):
        s = 0.0
        for j in range(K):
            v = 0.0
            for i in range(K):
                v += a[i] * A[i, j]
            b[j] = v * x[t, j]
            s += b[j]
        for j in range(K):
            a[j] = b[j] / s
        total += math.log(s)
    return np.array(total)


@compiled
def viterbi(x, A, start):
    """The most likely path."""
    T, K = x.shape
    d, new = start.copy(), np.empty(K)
    back = np.empty((T, K), np.int64)
    for t in range(T):
        for j in range(K):
            best, at = d[0] + A[0, j], 0
            for i in range(1, K):
                v = d[i] + A[i, j]
                if v > best:
                    best, at = v, i
            new[j] = best + x[t, j]
            back[t, j] = at
        d, new = new, d
    path = np.empty(T, np.int64)
    path[T - 1] = np.argmax(d)
    for i in range(T - 1):
        t = T - 2 - i
        path[t] = back[t + 1, path[t + 1]]
    return path


@compiled
def switching(x, A, mean, spread):
    """The log-likelihood of three regimes."""
    K = mean.shape[0]
    a, b = np.full(K, 1.0 / K), np.empty(K)
    total = 0.0
    for t in range(x.shape[0]):
        s = 0.0
        for j in range(K):
            v = 0.0
            for i in range(K):
                v += a[i] * A[i, j]
            z = (x[t] - mean[j]) / spread[j]
            b[j] = v * math.exp(-0.5 * z * z) / spread[j]
            s += b[j]
        for j in range(K):
            a[j] = b[j] / s
        total += math.log(s)
    return np.array(total)


@compiled
def spiking(x, W):
    """How often each neuron of a network fires."""
    T, H = x.shape
    v, s, u, fired = np.zeros(H), np.zeros(H), np.empty(H), np.zeros(H)
    for t in range(T):
        for j in range(H):
            total = x[t, j]
            for i in range(H):
                total += s[i] * W[i, j]
            u[j] = 0.9 * v[j] * (1.0 - s[j]) + total
        for j in range(H):
            v[j] = u[j]
            s[j] = 1.0 if v[j] >= 1.0 else 0.0
            fired[j] += s[j]
    return fired


@compiled
def rnn(x, R):
    """The last state of a plain recurrent network."""
    T, H = x.shape
    h, new = np.zeros(H), np.empty(H)
    for t in range(T):
        for j in range(H):
            total = x[t, j]
            for i in range(H):
                total += h[i] * R[i, j]
            new[j] = math.tanh(total)
        h, new = new, h
    return h


@compiled
def ctc(x, label):
    """The logarithm of the probability of a label, over all ways to align it; blanks are symbol 0."""
    T, S = x.shape[0], 2 * label.shape[0] + 1
    a, new = np.full(S, -1e30), np.empty(S)
    a[0] = 0.0
    for t in range(T):
        for s in range(S):
            own = 0 if s % 2 == 0 else label[s // 2]
            one = a[s]
            two = a[s - 1] if s > 0 else -1e30
            three = a[s - 2] if s > 1 and s % 2 == 1 and label[s // 2] != label[s // 2 - 1] else -1e30
            top = max(one, two, three)
            new[s] = top + math.log(math.exp(one - top) + math.exp(two - top) + math.exp(three - top)) + x[t, own]
        a, new = new, a
    top = max(a[S - 1], a[S - 2])
    return np.array(top + math.log(math.exp(a[S - 1] - top) + math.exp(a[S - 2] - top)))


# ---- tables: a scan in a scan ----------------------------------------------------------------------------------------


@compiled
def edit(x, y):
    """The edit distance of two words."""
    M = y.shape[0]
    row = np.arange(M + 1)
    for i in range(x.shape[0]):
        diagonal, row[0] = row[0], i + 1
        for j in range(M):
            up = row[j + 1]
            row[j + 1] = min(min(up + 1, row[j] + 1), diagonal + (1 if x[i] != y[j] else 0))
            diagonal = up
    return np.array(row[M])


@compiled
def warping(x, y):
    """The distance of two series under dynamic time warping."""
    M = y.shape[0]
    row = np.full(M + 1, np.inf)
    row[0] = 0.0
    for i in range(x.shape[0]):
        diagonal, row[0] = row[0], np.inf
        for j in range(M):
            up = row[j + 1]
            row[j + 1] = abs(x[i] - y[j]) + min(min(up, row[j]), diagonal)
            diagonal = up
    return np.array(row[M])


@compiled
def smith_waterman(x, y):
    """The best score of a local alignment."""
    M = y.shape[0]
    row = np.zeros(M + 1, np.int64)
    best = 0
    for i in range(x.shape[0]):
        diagonal = row[0]
        for j in range(M):
            up = row[j + 1]
            now = max(max(0, diagonal + (3 if x[i] == y[j] else -3)), max(up - 2, row[j] - 2))
            row[j + 1] = now
            best = max(best, now)
            diagonal = up
    return np.array(best)


@compiled
def needleman_wunsch(x, y):
    """The score of the best global alignment."""
    M = y.shape[0]
    row = -np.arange(M + 1)
    for i in range(x.shape[0]):
        diagonal, row[0] = row[0], -(i + 1)
        for j in range(M):
            up = row[j + 1]
            row[j + 1] = max(diagonal + (1 if x[i] == y[j] else -1), max(up - 1, row[j] - 1))
            diagonal = up
    return np.array(row[M])
