"""What the rules of the verifier yield."""

from scanjit.schedule.nests.statement import Statement

Problem = tuple[Statement, str]
"""The statement that breaks a rule, and how."""
