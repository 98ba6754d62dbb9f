"""Figures of every dataset that the library makes."""

import numpy as np
import pytest
import xarray as xr

import performative as pf
from performative.plotting import save


@pytest.fixture(scope="module")
def runs(small):
    problem, world, effect = small
    methods = {"apda": pf.apda(problem, warmup=20), "oracle": pf.oracle(problem, effect=effect, warmup=20)}
    return pf.simulate(methods, {"here": world, "there": world}, rounds=30, realizations=2)


def titles(figure):
    return [axes.get_title(loc="left") for axes in figure.axes]


def curves(figure, place):
    return [line for line in figure.axes[place].lines if len(line.get_xdata()) > 2]


def test_runs_are_drawn_in_the_four_panels_of_the_paper_and_one_for_deployments(runs):
    figure = pf.plot(runs)
    letters = [title[:3] for title in titles(figure)]
    assert letters == ["(a)", "(b)", "(e)", "(c)", "(d)", ""]
    assert len(curves(figure, 0)) == 4  # two methods in two variants
    assert len(curves(figure, 4)) == 2  # the oracle has no estimation error
    drawn = curves(figure, 0)[0]
    np.testing.assert_allclose(drawn.get_ydata(), runs.regret.isel(variant=0, algorithm=0).mean("realization"))
    np.testing.assert_array_equal(drawn.get_xdata(), runs["t"])
    deployed = curves(figure, 2)[0]
    np.testing.assert_array_equal(deployed.get_xdata(), runs.deployments.isel(variant=0, algorithm=0, realization=0))
    labels = [text.get_text() for text in figure.axes[-1].get_legend().get_texts()]
    assert labels == ["apda, here", "oracle, here", "apda, there", "oracle, there"]


def test_the_violation_drawn_is_that_of_the_worst_constraint(runs):
    drawn = curves(pf.plot(runs), 1)[0]
    worst = runs.violation.isel(variant=0, algorithm=0).max("constraint").mean("realization")
    np.testing.assert_allclose(drawn.get_ydata(), worst)


def test_runs_without_constraints_truth_or_variants_are_drawn_too(small):
    _, world, _ = small

    class Hidden:
        def init(self, key):
            return ()

        def sample(self, key, theta, n, state):
            return world.sample(key, theta, n), state

    problem = pf.Problem(lambda theta, z: -(z * theta).sum() + (theta**2).sum(), pf.Box(np.zeros(3), np.ones(3)))
    runs = pf.simulate({"apda": pf.apda(problem, warmup=5)}, Hidden(), rounds=10, realizations=2)
    figure = pf.plot(runs)
    shown = [[text.get_text() for text in axes.texts] for axes in figure.axes]
    assert shown[:5] == [["nothing to show"]] * 5


def test_a_dataset_written_before_the_dimensions_were_renamed_is_drawn_alike(runs, tmp_path):
    former = runs.isel(variant=0).rename(algorithm="method", t="round")
    figure, expected = pf.plot(former), pf.plot(runs.isel(variant=0))
    assert titles(figure) == titles(expected)
    np.testing.assert_array_equal(curves(figure, 0)[0].get_ydata(), curves(expected, 0)[0].get_ydata())


@pytest.mark.slow
def test_the_same_data_give_the_same_file(runs, tmp_path):
    for suffix in ("pdf", "svg"):  # the formats that would hold a date
        one, other = (tmp_path / f"{name}.{suffix}" for name in ("one", "other"))
        save(pf.plot(runs), one)
        save(pf.plot(runs), other)
        assert one.read_bytes() == other.read_bytes()


def test_a_method_whose_numbers_stopped_being_finite_is_drawn_as_far_as_it_got(runs):
    broken = runs.isel(variant=0).copy(deep=True)
    broken.regret[0, :, -1] = np.nan
    assert len(curves(pf.plot(broken), 0)) == 2


def test_one_selected_method_is_drawn(runs):
    alone = pf.plot(runs.isel(variant=0).sel(algorithm="apda"))
    np.testing.assert_array_equal(
        curves(alone, 0)[0].get_ydata(), curves(pf.plot(runs.isel(variant=0)), 0)[0].get_ydata()
    )


def test_a_comparison_is_drawn_whole_or_problem_by_problem():
    rows = ("algorithm", "realization", "point")
    dataset = xr.Dataset(
        {
            "deployed_regret": (rows, np.ones((1, 2, 3))),
            "deployments": (("algorithm", "point"), np.array([[1.0, 2.0, 3.0]])),
        },
        {"algorithm": ["rgd"]},
    )
    whole = pf.plot(pf.comparison.Comparison({"one": dataset, "two": dataset}, []))
    assert titles(whole)[:2] == ["one", "two"]
    assert titles(pf.plot(dataset.assign_attrs(problem="one")))[0] == "one"


def test_what_is_no_dataset_of_the_library_is_refused(runs):
    for other in (xr.Dataset({"a": ("x", [1.0])}), runs[["regret"]], xr.Dataset({"a": ("deployment", [1.0])})):
        with pytest.raises(ValueError, match=r"`dataset` must be a dataset of `simulate`.*but got dimensions \("):
            pf.plot(other)
    for other in (np.zeros(3), runs.regret):
        with pytest.raises(ValueError, match=f"but got {type(other).__name__}"):
            pf.plot(other)
