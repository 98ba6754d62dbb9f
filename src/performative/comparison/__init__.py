"""Methods side by side on problems with known answers: equal budgets of deployments, paired noise."""

from performative.comparison.comparison import compare
from performative.comparison.ranks import Row, ranking
from performative.comparison.results import Comparison, Skipped, summary, write

__all__ = ["Comparison", "Row", "Skipped", "compare", "ranking", "summary", "write"]
