"""Scans that run a stretch of steps at a time.

A *stretch* is some consecutive steps of a scan. A scan of 6 steps in stretches of 2 runs steps 0-1, then 2-3, then 4-5.
Memory for one stretch is then enough for tensors that only this scan and its neighbours need. Take a layer over 6
steps:

    p[t] = x[t] @ w                    a rowwise nest: row t of its result is made of row t of its operands
    h[t+1] = tanh(p[t] + h[t] @ u)     the scan
    y[t] = exp(h[t+1])                 a rowwise nest
    dw = sum over t of x[t] * y[t]     a sum over time

Without stretches p, h and y have 6 rows each. In stretches of 2, the program is

    for first in 0, 2, 4:              `Blocks`
        p[0:2] = x[first:first+2] @ w
        2 steps of the scan, from step `first` on
        y[0:2] = exp(h[1:3])
        dw += x[first:first+2] * y[0:2]

and p and y have 2 rows: they are *short* buffers. They also stay in the cache. (h keeps all rows if anything else reads
it.) A scan with all statements that go along with it is a *chain*.

- `bands` is a pass of its own, the first one: it cuts the points of scans, as `loops` cuts their steps.
- `loops` is the main pass: it cuts the loops of a program into stretches, inner loops first.
- `flow`: which statement of a suite reads and writes which buffers.
- `rows`: whether statements go through a buffer row by row.
- `stretch`: a nest or a scan, cut to some of its steps.
- `chains` finds chains. `blocks` chooses the length of their stretches and writes them as statements; `parts` has what
  it shares with `checkpoint`.
- `sums` finds sums over time that can be made stretch by stretch, and takes them apart. `deep` is a pass of its
  own: it cuts other long sums in the same way.
- `checkpoint`: scans whose steps are recomputed for the gradient, stretch by stretch.
"""
