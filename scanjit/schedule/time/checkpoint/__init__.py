"""Checkpoints: only some carries of a loop are saved for its gradient, and the steps between them are recomputed.

Take `h[t+1] = tanh(x[t] + h[t] @ w)` over 6 steps and its gradient, which goes from step 5 to step 0 and reads h.
Without checkpoints h has 7 rows. With `checkpoint=2` both loops run in stretches of 2 steps:

    saved[0] = h0
    for first in 0, 2, 4:                      phase 1: the loop of the value
        h[0] = saved[first / 2]
        h[1:3] = 2 steps of the loop
        saved[first / 2 + 1] = h[2]
    for first in 4, 2, 0:                      phase 2: the loop of the gradient
        unless first is 4:                     (the rows of this stretch are still in h)
            h[0] = saved[first / 2]
            h[1:3] = 2 steps of the loop       recomputed
        2 steps of the gradient

h now has 3 rows, and `saved` has 4. The nests are the same as without checkpoints, so the results are equal to the last
bit. Loops that share their stretches are a *family*: here these two, in a second derivative four or more. The first of
them is the *root*. Loops that go through the stretches together are a *phase*: the layers of a stack, say.

A loop inside a step keeps nothing between the steps of the loop around it. If it asks for checkpoints, the loop around
it saves its carries before every step, and this whole step is recomputed.

- `families` finds the families of a suite. It begins with loops that may fit (`related`) as a `Candidate`, which goes
  through the steps that `families.STEPS` lists. Each step returns a candidate that knows more, or refuses it and says
  which narrower one to try.
- `short` finds the buffers that need memory for one stretch only. `phases` decides which phase does which statement.
  `recompute` finds what each phase recomputes, and refuses if that is too much.
- `saved` has the carries that are saved before each stretch, and changes the nests that write their initial values or
  read their last ones.
- `stretches` writes a family as statements.
"""
