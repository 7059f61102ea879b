"""Interrupts at random moments: signal handlers that raise while functions run, of each kind, for as long as one likes.

python -m tests.interrupts --count 200000
"""
