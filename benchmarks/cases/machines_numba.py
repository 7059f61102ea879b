"""The recurrences of `machines` as one writes them for Numba: plain loops, without fast-math or threads."""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import math

import numpy as np
from numba import njit

compiled = njit(error_model="numpy", cache=True)


@compiled
def waiting(arrives, lasts):
    """How long each customer of one server waits."""
    waits, free = np.empty_like(arrives), 0.0
    for t in range(arrives.shape[0]):
        begins = max(arrives[t], free)
        waits[t] = begins - arrives[t]
        free = begins + lasts[t]
    return waits


@compiled
def covered(arrives, lasts):
    """The length of what intervals cover together."""
    end = total = 0.0
    for t in range(arrives.shape[0]):
        last = arrives[t] + lasts[t]
        total += max(0.0, last - max(arrives[t], end))
        end = max(end, last)
    return np.array(total)


@compiled
def walk(way, grid):
    """How often a walk comes to each place of a grid."""
    grid = grid.copy()
    i = j = 0
    for t in range(way.shape[0]):
        if way[t] == 0:
            i = min(i + 1, 31)
        elif way[t] == 1:
            i = max(i - 1, 0)
        elif way[t] == 2:
            j = min(j + 1, 31)
        else:
            j = max(j - 1, 0)
        grid[i, j] += 1.0
    return grid


@compiled
def stack_machine(op, x):
    """The top of a stack of 16 numbers after each instruction; one that cannot be done does nothing."""
    tops, stack, size = np.empty_like(x), np.zeros(16), 0
    for t in range(x.shape[0]):
        if op[t] == 0:
            if size < 16:
                stack[size] = x[t]
                size += 1
        elif size >= 2:
            a, b = stack[size - 1], stack[size - 2]
            size -= 1
            if op[t] == 1:
                stack[size - 1] = a + b
            elif op[t] == 2:
                stack[size - 1] = a * b
            else:
                stack[size - 1] = a - b
        tops[t] = stack[max(size - 1, 0)]
    return tops


@compiled
def longest_window(x):
    """The longest window whose sum is at most 10, of numbers that are not negative."""
    left = longest = 0
    total = 0.0
    for t in range(x.shape[0]):
        total += x[t]
        while total > 10.0:
            total -= x[left]
            left += 1
        longest = max(longest, t - left + 1)
    return np.array(longest)


@compiled
def greater_before(x):
    """The last greater number before each one, -1 if there is none among the 64 on a stack."""
    found, stack, size = np.empty_like(x), np.zeros(64), 0
    for t in range(x.shape[0]):
        while size > 0 and stack[size - 1] < x[t]:
            size -= 1
        found[t] = stack[size - 1] if size > 0 else -1.0
        stack[min(size, 63)] = x[t]
        size = min(size + 1, 64)
    return found


@compiled
def bounded_walk(way):
    """A walk that does not go below 0."""
    path, at = np.empty_like(way), 0
    for t in range(way.shape[0]):
        at = max(at + (1 if way[t] == 1 else -1), 0)
        path[t] = at
    return path


@compiled
def trailing_stop(x):
    """A stop two below the price, or above it. It never goes back, and changes sides if the price crosses it."""
    path, stop, long = np.empty_like(x), -1e9, True
    for t in range(x.shape[0]):
        if long:
            if x[t] < stop:
                stop, long = x[t] + 2.0, False
            else:
                stop = max(stop, x[t] - 2.0)
        elif x[t] > stop:
            stop, long = x[t] - 2.0, True
        else:
            stop = min(stop, x[t] + 2.0)
        path[t] = stop
    return path


@compiled
def total(way):
    """The sum of the numbers in a text of digits and commas (10)."""
    number = total = 0
    for t in range(way.shape[0]):
        if way[t] < 10:
            number = min(number * 10 + way[t], 9999)
        else:
            total, number = total + number, 0
    return np.array(total)


@compiled
def last_one(way):
    """Who is left in a circle of which every seventh leaves, after Josephus; only how many there are matters."""
    at = 0
    for n in range(1, way.shape[0] + 1):
        at = (at + 7) % n
    return np.array(at)


@compiled
def rotation(x, p):
    """A point that turns and is pushed."""
    path = np.empty_like(x)
    a = b = 0.0
    for t in range(x.shape[0]):
        a, b = p[0] * a - p[1] * b + x[t, 0], p[1] * a + p[0] * b + x[t, 1]
        path[t, 0], path[t, 1] = a, b
    return path


@compiled
def small_gru(x, W, U):
    """A GRU of three units."""
    path, h, z, u = np.empty((x.shape[0], 3)), np.zeros(3), np.empty(9), np.empty(9)
    for t in range(x.shape[0]):
        for j in range(9):
            z[j] = x[t, 0] * W[0, j] + x[t, 1] * W[1, j]
            u[j] = h[0] * U[0, j] + h[1] * U[1, j] + h[2] * U[2, j]
        for j in range(3):
            r = 1.0 / (1.0 + math.exp(-(z[j] + u[j])))
            f = 1.0 / (1.0 + math.exp(-(z[3 + j] + u[3 + j])))
            h[j] = f * h[j] + (1.0 - f) * math.tanh(z[6 + j] + r * u[6 + j])
        path[t] = h
    return path


@compiled
def holt(x, p):
    """Exponential smoothing of a level and a trend."""
    found = np.empty_like(x)
    level = slope = 0.0
    for t in range(x.shape[0]):
        new = p[0] * x[t] + (1.0 - p[0]) * (level + slope)
        slope = p[1] * (new - level) + (1.0 - p[1]) * slope
        level = new
        found[t] = level + slope
    return found


@compiled
def divisors(x, y):
    """The greatest common divisors of pairs."""
    found = np.empty_like(x)
    for t in range(x.shape[0]):
        a, b = x[t], y[t]
        while b != 0:
            a, b = b, a % b
        found[t] = a
    return found


@compiled
def collatz(x, y):
    """How many steps of Collatz lead to 1."""
    found = np.empty_like(x)
    for t in range(x.shape[0]):
        n, steps = x[t], 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        found[t] = steps
    return found


@compiled
def escapes(x, y):
    """After how many steps points of the Mandelbrot set are known not to be in it, at most 100."""
    found = np.empty(x.shape[0], np.int64)
    for t in range(x.shape[0]):
        a = b = 0.0
        steps = 0
        while a * a + b * b <= 4.0 and steps < 100:
            a, b = a * a - b * b + x[t], 2.0 * a * b + y[t]
            steps += 1
        found[t] = steps
    return found
