"""The dataset of a simulation: which rounds are recorded, and what its variables say of themselves."""

import numpy as np
import pytest

import performative as pf
from performative.simulation.dataset import VARIABLES, recorded_rounds


@pytest.fixture(scope="module")
def runs(small):
    problem, world, _ = small
    return pf.simulate({"apda": pf.apda(problem, warmup=20)}, world, rounds=20, realizations=2, outside=True)


def test_every_variable_says_what_it_is(runs):
    for name in {*runs.variables}:
        assert set(runs[name].attrs) >= {"long_name", "description"}, name
    assert "squared" in runs.deviation.description.lower()
    assert "signed" in runs.violation.description
    assert runs.regret.long_name == "regret Reg(t)/t"
    assert runs.deployments.units == "samples"


def test_the_descriptions_survive_a_file(runs, tmp_path):
    import xarray as xr

    runs.to_netcdf(tmp_path / "runs.nc")
    with xr.open_dataset(tmp_path / "runs.nc") as stored:
        assert {name: stored[name].attrs["long_name"] for name in stored.data_vars} == {
            name: VARIABLES[name]["long_name"] for name in runs.data_vars
        }


def test_dimensions_shadow_no_argument_and_no_method_of_xarray(runs):
    """`sel(method=...)` and `Dataset.round` are xarray's own."""
    assert runs.sel(algorithm="apda").sizes["t"] == runs.sizes["t"]
    assert not set(runs.sizes) & {"method", "tolerance", "drop", "round"}
    assert not any(callable(getattr(type(runs), str(name), None)) for name in runs.sizes)


def test_recorded_rounds_are_spaced_in_log_t_and_end_with_the_last():
    rounds = recorded_rounds(1000, 10)
    assert rounds[0] == 1
    assert rounds[-1] == 1000
    assert np.ptp(np.diff(np.log(rounds[3:]))) < 0.1
    assert recorded_rounds(10, [3]) == [1, 3, 10]
    with pytest.raises(ValueError, match=r"`record` must lie within 1\.\.10, but got 11"):
        recorded_rounds(10, [11])
