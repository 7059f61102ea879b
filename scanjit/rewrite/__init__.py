"""Graph to graph: local algebra by a table of rules, and the transforms of loops, in one tuple of passes."""

from scanjit.rewrite.engine import Note, Rewriter, Rule, RuleTable
from scanjit.rewrite.pipeline import PIPELINE, Rewritten, lower, run
from scanjit.rewrite.rules import RULES

__all__ = ["PIPELINE", "RULES", "Note", "Rewriter", "Rewritten", "Rule", "RuleTable", "lower", "run"]
