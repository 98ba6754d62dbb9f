"""Rankings: paired tests that say which methods they cannot distinguish."""

import numpy as np
import pytest
import xarray as xr

from performative.comparison import results
from performative.comparison.ranks import ranking


def dataset_of(values):
    """A dataset of one problem with these deployed regrets (method, realization)."""
    variables = {
        name: (
            ("algorithm", "realization", "point"),
            values[:, :, None] if name == "deployed_regret" else np.zeros((*values.shape, 1)),
        )
        for name in results.VARIABLES
    }
    variables["deployments"] = (("algorithm", "point"), np.full((len(values), 1), 7.0))
    variables["seconds"] = (("algorithm",), np.zeros(len(values)))
    return xr.Dataset(variables, {"algorithm": list("abcd"[: len(values)])})


def test_the_ranking_pairs_realizations_and_says_what_cannot_be_told_apart():
    """b is better than a in every realization by far less than they vary; c cannot be told from b; d is far worse."""
    random = np.random.default_rng(0)
    shared = random.normal(size=30)
    noise = random.normal(size=(4, 30))
    values = np.stack([shared + 0.1 + 0.01 * noise[0], shared, shared + 0.5 * noise[2], shared + 9.0 + noise[3]])
    rows = {row.method: row for row in ranking(dataset_of(values))}
    assert rows["b"].rank < rows["a"].rank
    assert "b" not in rows["a"].alike
    assert "c" in rows["b"].alike
    assert rows["d"].rank == 4
    assert rows["d"].alike == ()
    mean, half = rows["d"].deployed_regret
    assert half == pytest.approx(2.045 * values[3].std(ddof=1) / np.sqrt(30), rel=1e-3)  # t quantile, 29 degrees
    assert mean == pytest.approx(values[3].mean())


@pytest.mark.slow
def test_equal_methods_are_told_apart_in_at_most_a_twentieth_of_all_rankings():
    """Holm's promise, for four equal methods at a time; 0.05 and three standard errors over 400 rankings is 0.083."""
    random = np.random.default_rng(1)
    wrong = [any(row.rank > 1 for row in ranking(dataset_of(random.normal(size=(4, 8))))) for _ in range(400)]
    assert np.mean(wrong) <= 0.083


def test_what_is_finite_and_immense_comes_last():
    """Its variance is not finite, and no test could tell it from the others."""
    random = np.random.default_rng(0)
    values = np.stack([k + 0.1 * random.normal(size=20) for k in (1.0, 2.0, 1e200, 3.0)])
    rows = ranking(dataset_of(values))
    assert [row.method for row in rows] == ["a", "b", "d", "c"]
    assert rows[0].rank == 1
    assert rows[-1].rank == 4


def test_methods_that_left_the_finite_numbers_come_last():
    values = np.array([[1.0, 2.0, 1.5], [np.inf, 1.0, np.nan], [0.1, 0.2, 0.15]])
    rows = ranking(dataset_of(values))
    assert [row.method for row in rows][-1] == "b"
    assert results._finite({"a": (float("nan"), 1.0)}) == {"a": [None, 1.0]}
