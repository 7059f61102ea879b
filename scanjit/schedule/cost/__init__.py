"""Costs of statements, in one place: every choice of the scheduler that compares costs asks here."""
