"""The experiments of the paper: files, resuming, the command, a cluster."""

import json
import os
import signal
import subprocess
import sys
import time

import distributed
import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

from performative.cli import app
from performative.experiments import reproduce
from performative.problems import portfolio, regression

SMALL = {"rounds": 40, "realizations": 4, "methods": ("apda", "oracle")}


@pytest.fixture(scope="module")
def small_run():
    return reproduce.reproduce("portfolio", **SMALL)


def same_bits(one, other):
    return all(np.array_equal(one[name].values, other[name].values, equal_nan=True) for name in one.data_vars)


def test_the_command_writes_everything_and_the_summary_has_the_promised_form(tmp_path):
    result = CliRunner().invoke(
        app,
        ["reproduce", "portfolio", "--rounds", "30", "--realizations", "3", "--workers", "1", "--out", str(tmp_path)],
    )
    assert result.exit_code == 0, result.output
    assert "apda" in result.output
    directory = tmp_path / "portfolio"
    summary = json.loads((directory / "summary.json").read_text())
    assert {"experiment", "rounds", "realizations", "seed", "seconds", "settings"} <= set(summary)
    assert len(summary["settings"]) == 2 * 5
    for row in summary["settings"]:
        assert set(row["final"]) == set(reproduce.SUMMARISED)
        assert set(row["final"]["relative_regret"]) == {"mean", "std", "median"}
    with xr.open_dataset(directory / "results.nc") as stored:
        assert list(stored.sensitivity.values) == [1.0, 10.0]
        final = stored.relative_regret.sel({"algorithm": "apda", "sensitivity": 1.0}).isel(t=-1)
        assert float(final.mean()) == pytest.approx(summary["settings"][0]["final"]["relative_regret"]["mean"])
    assert (directory / "figure.png").stat().st_size > 10_000
    assert (directory / "figure.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "must be one of"),
        (["portfolio", "--rounds", "0"], "`rounds` must be a whole number >= 1"),
        (["portfolio", "--sensitivity", "-1"], "`sensitivity > 0` must hold"),
        (["portfolio", "--sensitivity", "1", "--sensitivity", "1"], "must be different numbers"),
        (["portfolio", "--workers", "0"], "`workers` must be a whole number >= 1"),
        (["portfolio", "--cluster", "nowhere", "--rounds", "2", "--realizations", "1"], "dask://host:port"),
    ],
)
def test_bad_arguments_of_the_command_are_refused(tmp_path, arguments, message):
    result = CliRunner().invoke(app, ["reproduce", *arguments, "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_a_cluster_that_does_not_answer_is_named(monkeypatch):
    def refuse(address, **_):
        raise OSError(f"timed out trying to connect to {address}")

    monkeypatch.setattr(distributed, "Client", refuse)
    with pytest.raises(ValueError, match=r"`cluster` must be reachable, but dask://127\.0\.0\.1:9 is not: timed out"):
        reproduce.reproduce("portfolio", rounds=2, realizations=1, cluster="dask://127.0.0.1:9", methods=["oracle"])


def test_a_directory_that_cannot_be_written_to_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    result = CliRunner().invoke(app, ["reproduce", "portfolio", "--out", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert "`out` must be a directory that can be written to" in " ".join(result.output.replace("│", " ").split())


def test_first_round_is_one_and_worst_violation_is_the_largest(small_run):
    np.testing.assert_allclose(small_run.relative_regret.isel(t=0), 1.0)
    np.testing.assert_allclose(abs(small_run.relative_violation.isel(t=0)), 1.0)
    assert np.array_equal(small_run.worst_violation, small_run.violation.max("constraint"))


def test_the_investor_estimates_the_risk_from_the_very_samples_of_the_warm_up():
    """Ψ̂ is the covariance of round 0's samples: the method's problem and its belief hold the same numbers."""
    from performative.numerics.precision import precise
    from performative.simulation.engine import Batch, first_answer

    instance = portfolio.instance(5, 2, 1.0, reproduce.WARMUP)
    with precise():
        world = reproduce.make_world(instance, ["apda-recycle"])
        batch = Batch([[world]], [2], 5)
        observed = batch.runs["apda-recycle"].state.belief.base.observed.joint
        drawn = first_answer(instance.environment, np.zeros(portfolio.ASSETS), 5, 2, reproduce.WARMUP)
    center = np.asarray(observed.center)[: portfolio.ASSETS, 0]
    np.testing.assert_allclose(center, np.mean(np.asarray(drawn), axis=0), rtol=1e-12)
    np.testing.assert_allclose(instance.problem.constraints[2].matrix, np.cov(np.asarray(drawn).T), rtol=1e-12)
    assert np.any(instance.problem.constraints[2].matrix != instance.truth.constraints[2].matrix)


def test_sensitivities_of_an_experiment_share_everything_but_the_effect():
    one, ten = (regression.instance(3, 1, eps, 1000) for eps in (1.0, 10.0))
    np.testing.assert_allclose(10 * one.environment.effect, ten.environment.effect)
    assert np.linalg.norm(ten.environment.effect) == pytest.approx(10.0)
    np.testing.assert_array_equal(one.environment.base.covariance, ten.environment.base.covariance)
    np.testing.assert_array_equal(one.problem.constraints[0].active, ten.problem.constraints[0].active)
    assert one.optimum.kkt_residual < 1e-12


@pytest.mark.slow
def test_workers_give_the_same_bits(small_run, monkeypatch):
    monkeypatch.setattr(reproduce, "LANES", 2)
    alone = reproduce.reproduce("portfolio", **SMALL)
    assert same_bits(alone, reproduce.reproduce("portfolio", **SMALL, workers=2))
    for name in ("relative_regret", "deviation"):
        np.testing.assert_allclose(alone[name], small_run[name], rtol=1e-9)


@pytest.mark.slow
def test_an_interrupted_command_leaves_a_readable_file_and_goes_on_to_the_same_bits(tmp_path):
    """A real process, a real Ctrl-C, started again; compared with one that was never interrupted."""
    arguments = ["reproduce", "portfolio", "--rounds", "100000", "--realizations", "2", "--workers", "1"]
    command = [
        sys.executable,
        "-c",
        "from performative import batches; batches.SAVE_EVERY = 0.2\nfrom performative.cli import app; app()",
    ]
    out = tmp_path / "run"
    checkpoint = out / "portfolio" / "checkpoints" / "batch-000000.npz"
    process = subprocess.Popen(
        [*command, *arguments, "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ}
    )
    deadline = time.monotonic() + 120
    while not has_records(checkpoint) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors.decode()
    assert b"interrupted" in errors
    with xr.open_dataset(out / "portfolio" / "results.nc") as part:
        assert part.sizes["t"] > 1
        partial = part.relative_regret.load()
    assert subprocess.run([*command, *arguments, "--out", str(out)], capture_output=True, check=False).returncode == 0
    fresh = reproduce.reproduce("portfolio", rounds=100_000, realizations=2)
    with xr.open_dataset(out / "portfolio" / "results.nc") as stored:
        assert same_bits(fresh, stored)
        assert partial.sizes["t"] <= stored.sizes["t"]
        assert np.array_equal(stored.relative_regret.sel(t=partial["t"]), partial)


def has_records(checkpoint):
    if not checkpoint.exists():
        return False
    with np.load(checkpoint) as stored:
        return any(name.startswith("recorded/9/") for name in stored)


@pytest.mark.slow
def test_a_dask_cluster_that_loses_a_worker_gives_the_same_bits(small_run, monkeypatch):
    """Two workers of a local cluster; one is killed on the way, its batches run again elsewhere."""
    from threading import Thread

    monkeypatch.setattr(reproduce, "LANES", 1)
    alone = reproduce.reproduce("portfolio", **SMALL)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        victim = next(iter(client.scheduler_info()["workers"].values()))["id"]

        def kill():
            time.sleep(6)
            os.kill(client.run(os.getpid, workers=None)[_address(client, victim)], signal.SIGKILL)

        killer = Thread(target=kill)
        killer.start()
        spread = reproduce.reproduce(
            "portfolio", **SMALL, cluster=cluster.scheduler_address.replace("tcp://", "dask://")
        )
        killer.join()
    assert same_bits(alone, spread)


def _address(client, worker):
    return next(address for address, info in client.scheduler_info()["workers"].items() if info["id"] == worker)


def test_what_is_kept_of_an_interrupted_run_starts_with_the_first_batch(tmp_path, monkeypatch):
    """A later batch that is ahead of the first must not pass for it."""
    jobs = reproduce.experiment_jobs("portfolio", 2, 2, [1.0], 0, ["oracle"], None, None)
    pieces = iter([[], [{"not": "the first"}]])
    monkeypatch.setattr(reproduce, "finished_so_far", lambda _: next(pieces))
    reproduce._keep_partial([jobs[0], jobs[0]], "portfolio", [1.0], tmp_path)
    assert not list(tmp_path.iterdir())
