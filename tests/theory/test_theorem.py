"""Theorem 1 against runs on a problem that meets every assumption."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from theorem_model import ACTIVE, HORIZONS, SLACK, measured, model

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("bound", [ACTIVE, SLACK])
@pytest.mark.slow
def test_the_model_meets_every_assumption(bound):
    _, _, constants = model(bound)
    assert [item.name for item in constants.assumptions if item.holds is not True] == []
    assert constants.decision_convexity == pytest.approx(0.2, rel=1e-12)
    assert constants.data_convexity == pytest.approx(0.1, rel=1e-12)
    assert constants.smoothness == pytest.approx(0.03, rel=1e-12)
    assert constants.constraint_lipschitz == pytest.approx(1.0, rel=1e-9)
    assert constants.constraint_bound == pytest.approx(max(0.5 - bound, bound), rel=1e-9)
    assert constants.horizon == 32


@pytest.mark.slow
@pytest.mark.parametrize("bound", [ACTIVE, SLACK])
def test_runs_stay_below_the_bounds_of_the_theorem(bound):
    """Means over 50 realizations of all four sums, at four horizons; the ratios say the bounds are not vacuous."""
    for rounds in HORIZONS:
        check_bounds(bound, rounds)


def check_bounds(bound, rounds):
    sums, limits = measured(bound, rounds), model(bound)[2].theorem(rounds)
    mean, error = sums.mean(axis=0), sums.std(axis=0) / math.sqrt(len(sums))
    bounds = np.array([limits.regret, limits.violation, limits.gradient_error, limits.parameter_error])
    assert np.all(mean + 3 * error <= bounds), (rounds, mean, bounds)
    assert bounds[2] <= 100 * mean[2], (rounds, bounds / mean)
    assert bounds[3] <= 10 * mean[3], (rounds, bounds / mean)
    if bound == ACTIVE:  # Σ g tends to δλ*√T
        assert bounds[1] <= 10 * mean[1], bounds[1] / mean[1]
    else:  # 2R² + C² + 2L² stands for the way from the start, which is short here
        assert bounds[0] <= 2000 * mean[0], bounds[0] / mean[0]


@pytest.mark.slow
def test_factors_between_bound_and_measured_sums():
    """Prints what docs/paper.md shows, and compares."""
    lines = ["| | T | regret | violation | gradient error | parameter error |", "|---|---|---|---|---|---|"]
    for name, bound in (("λ* = 0.27", ACTIVE), ("λ* = 0", SLACK)):
        constants = model(bound)[2]
        for rounds in (100, 1_000, 10_000, 100_000):
            check_bounds(bound, rounds)
            sums, limits = measured(bound, rounds), constants.theorem(rounds)
            values = (limits.regret, limits.violation, limits.gradient_error, limits.parameter_error)
            shown = [f"{b / m:.2g}" if m > 0 else "−" for b, m in zip(values, sums.mean(axis=0), strict=True)]
            lines.append(f"| {name} | {rounds} | " + " | ".join(shown) + " |")
    print("\n" + "\n".join(lines))
    text = (ROOT / "docs" / "paper.md").read_text().splitlines()
    shown = text[text.index(lines[0]) :][: len(lines)]
    for line, other in zip(lines[2:], shown[2:], strict=True):
        for value, stated in zip(line.split(" | ")[2:], other.split(" | ")[2:], strict=True):
            value, stated = value.strip(" |"), stated.strip(" |")
            assert value == stated or float(value) == pytest.approx(float(stated), rel=0.06)  # two digits are shown


@pytest.mark.slow
@pytest.mark.parametrize(("bound", "column"), [(ACTIVE, 1), (SLACK, 0)])
def test_regret_and_violation_grow_no_faster_than_the_square_root(bound, column):
    """The exponent of T fitted on log-log: of the violation with λ* > 0, where regret is negative, of the regret with λ* = 0."""
    sums = [measured(bound, rounds)[:, column].mean() for rounds in HORIZONS]
    slope = np.polyfit(np.log(HORIZONS), np.log(sums), 1)[0]
    assert slope <= 0.55, (slope, sums)


@pytest.mark.slow
def test_regret_is_negative_where_the_violation_is_positive():
    """Slip 12: the proof takes PR(θ_t) ≥ PR(θ_PO) + γ/2‖·‖², which infeasible iterates break."""
    sums = measured(ACTIVE, 10_000)
    assert np.all(sums[:, 0] < 0)
    assert np.all(sums[:, 1] > 0)


def test_a_gap_in_the_horizon_is_refused():
    _, _, constants = model(ACTIVE)
    with pytest.raises(ValueError, match="`rounds >= 32 L_g²` must hold"):
        constants.theorem(10)
