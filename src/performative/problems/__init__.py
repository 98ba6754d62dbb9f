"""Standard problems whose risk, optimum and stable point are known."""

from performative.problems.case import Case
from performative.problems.catalog import PROBLEMS, get, names

__all__ = ["PROBLEMS", "Case", "get", "names"]
