"""Figures of datasets; nothing here computes anything."""

from performative.plotting.comparison import comparison_figure
from performative.plotting.plot import plot
from performative.plotting.runs import runs_figure
from performative.plotting.style import save

__all__ = ["comparison_figure", "plot", "runs_figure", "save"]
