"""Figures of datasets; nothing here computes anything."""

from performative.plotting.comparison import comparison_figure
from performative.plotting.runs import experiment_figure
from performative.plotting.study import figure as study_figure
from performative.plotting.style import save

__all__ = ["comparison_figure", "experiment_figure", "save", "study_figure"]
