"""`simulate`: results do not depend on how a run is divided, variants share the noise, and methods cannot see the truth."""

import json
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from plain_methods import ECHO, Planner

import performative as pf
from performative.numerics.precision import precise
from performative.numerics.programs import told_of_compiling
from performative.numerics.pytrees import pytree
from performative.numerics.randomness import new_key
from performative.simulation import simulate as simulating

VARIABLES = ("regret", "violation", "deviation", "estimation_error", "deployed_regret", "decision", "multipliers")


def methods(problem, effect):
    return {
        "pd-ps": pf.pd_ps(problem, warmup=20),
        "oracle": pf.oracle(problem, effect=effect, warmup=20),
        "recycle": pf.apda(problem, warmup=20, recycle=True),
    }


@pytest.fixture(scope="module")
def reference(small):
    problem, world, effect = small
    return pf.simulate(methods(problem, effect), world, rounds=60, realizations=6, seed=3, batch=3)


def assert_identical(one, other):
    for name in VARIABLES:
        assert np.array_equal(one[name].values, other[name].values, equal_nan=True), name


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_chunk_size_does_not_change_a_bit(small, reference, chunk):
    problem, world, effect = small
    assert_identical(
        reference, pf.simulate(methods(problem, effect), world, rounds=60, realizations=6, seed=3, batch=3, chunk=chunk)
    )


def test_workers_do_not_change_a_bit(small, reference):
    problem, world, effect = small
    assert_identical(
        reference, pf.simulate(methods(problem, effect), world, rounds=60, realizations=6, seed=3, batch=3, workers=2)
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_few_realizations_are_two_batches_of_one_size_whatever_the_workers(small, reference, workers):
    """Five are three and three; the sixth is computed, since one program serves both batches, and left out."""
    problem, world, effect = small
    five = pf.simulate(methods(problem, effect), world, rounds=60, realizations=5, seed=3, workers=workers)
    assert five.attrs["batch"] == 3
    assert_identical(five, reference.isel(realization=slice(5)))


def test_order_of_methods_does_not_change_a_bit(small, reference):
    problem, world, effect = small
    shuffled = dict(reversed(methods(problem, effect).items()))
    again = pf.simulate(shuffled, world, rounds=60, realizations=6, seed=3, batch=3)
    assert list(again.algorithm.values) == list(shuffled)
    assert_identical(reference, again.sel({"algorithm": reference.algorithm.values}))


@pytest.mark.parametrize("batch", [1, 6])
def test_another_batch_size_changes_rounding_alone(small, reference, batch):
    problem, world, effect = small
    again = pf.simulate(methods(problem, effect), world, rounds=60, realizations=6, seed=3, batch=batch)
    for name in VARIABLES:
        np.testing.assert_allclose(again[name], reference[name], rtol=1e-10, atol=1e-10)


def test_fewer_realizations_and_rounds_are_a_part_of_more(small, reference):
    problem, world, effect = small
    part = pf.simulate(methods(problem, effect), world, rounds=30, realizations=3, seed=3, batch=3, record=[10])
    whole = pf.simulate(methods(problem, effect), world, rounds=60, realizations=6, seed=3, batch=3, record=[10, 30])
    for name in VARIABLES:
        assert np.array_equal(
            part[name].values, whole[name].isel(realization=slice(3)).sel(t=[1, 10, 30]).values, equal_nan=True
        )


def test_an_interrupted_run_goes_on_to_the_same_bits(small, reference, tmp_path, monkeypatch):
    problem, world, effect = small
    from performative.simulation import engine, runner

    monkeypatch.setattr(runner, "SAVE_EVERY", 0.0)
    run = {"rounds": 60, "realizations": 6, "seed": 3, "batch": 3, "chunk": 5, "checkpoint": tmp_path}
    advance, calls = engine.Batch.advance, []

    def interrupted(self, stop):
        calls.append(stop)
        if len(calls) in (9, 60):
            raise KeyboardInterrupt
        advance(self, stop)

    monkeypatch.setattr(engine.Batch, "advance", interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            pf.simulate(methods(problem, effect), world, **run)
    with xr.open_dataset(tmp_path / "partial.nc") as partial:  # the second batch was interrupted
        assert partial.sizes["realization"] == 6
        assert 1 < partial.sizes["t"] < reference.sizes["t"]
        assert_identical(reference.sel(t=partial["t"].values), partial)
    assert_identical(reference, pf.simulate(methods(problem, effect), world, **run))
    assert not (tmp_path / "partial.nc").exists()
    count = len(calls)
    assert_identical(reference, pf.simulate(methods(problem, effect), world, **run))
    assert len(calls) == count  # nothing was left to run
    with pytest.raises(ValueError, match="belongs to another run"):
        pf.simulate(methods(problem, effect), world, **{**run, "seed": 4})


def test_what_an_interrupted_run_leaves_starts_with_the_first_batch(small, tmp_path, monkeypatch):
    """A later batch that is ahead of the first must not pass for it."""
    problem, world, _ = small

    def interrupted(*_):
        raise KeyboardInterrupt

    pieces = iter([[], [{"not": "the first"}]])
    monkeypatch.setattr(simulating, "run_jobs", interrupted)
    monkeypatch.setattr(simulating, "finished_so_far", lambda _: next(pieces))
    with pytest.raises(KeyboardInterrupt):
        pf.simulate({"apda": pf.apda(problem)}, world, rounds=2, realizations=2, batch=1, checkpoint=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_variants_share_the_noise_and_agree_with_runs_of_their_own(small):
    """Two worlds, and two steps that go with them: each variant gives what it gives alone."""
    problem, world, effect = small
    worlds = {"weak": world, "strong": pf.LocationFamily(world.base, 2.0 * effect)}
    steps = {"weak": 0.05, "strong": 0.01}
    made = {label: pf.apda(problem, warmup=20, step=step) for label, step in steps.items()}
    options = {"rounds": 60, "realizations": 3, "seed": 3}
    together = pf.simulate({"apda": made}, worlds, **options)
    assert together.regret.dims == ("variant", "algorithm", "realization", "t")
    assert list(together["variant"].values) == ["weak", "strong"]
    for label in worlds:
        alone = pf.simulate({"apda": made[label]}, worlds[label], **options)
        for name in VARIABLES:
            np.testing.assert_allclose(together[name].sel(variant=label), alone[name], rtol=1e-10, atol=1e-10)
    assert set(json.loads(together.attrs["environment"])) == {"weak", "strong"}


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"a": {"x", "y"}, "b": {"x"}}, "all mappings of variants must be nonempty and have the same keys"),
        ({"a": {("x", 1)}, "b": {("x", 1)}}, "labels of variants must be all strings or all numbers"),
        ({"a": {None}, "b": {None}}, "labels of variants must be all strings or all numbers"),
        ({"a": set(), "b": set()}, "all mappings of variants must be nonempty and have the same keys"),
    ],
)
def test_variants_that_do_not_fit_together_are_refused(small, labels, message):
    problem, world, _ = small
    methods, worlds = (
        dict.fromkeys(sorted(labels[name]), thing) for name, thing in (("a", pf.apda(problem)), ("b", world))
    )
    with pytest.raises(ValueError, match=message):
        pf.simulate({"apda": methods}, worlds, rounds=5)


def test_variants_of_different_numbers_of_instances_are_refused(small):
    problem, world, _ = small
    with pytest.raises(ValueError, match=r"the same number of instances, but got \[2, 3\]"):
        pf.simulate({"apda": pf.apda(problem)}, {"x": [world] * 2, "y": [world] * 3}, rounds=5)


def test_simulation_agrees_with_asking_and_telling_by_hand(small, reference):
    """The spine: a loop of ask, sample, tell on the same keys gives the simulation's numbers."""
    problem, world, effect = small
    from performative.simulation.engine import round_keys

    lane = jax.random.fold_in(new_key(3), 4)
    for name, method in methods(problem, effect).items():
        state = method.init(jax.random.fold_in(lane, 0))
        for t in range(61):
            keys = round_keys(lane, t, 2)
            decisions, wanted = method.ask(state, keys[0]), method.wanted(state)
            with precise():
                samples = jnp.stack([world.sample(keys[1 + i], d, wanted) for i, d in enumerate(decisions)])
            before, state = state, method.tell(state, decisions, samples)
        recorded = reference.sel({"algorithm": name, "realization": 4, "t": 60})
        np.testing.assert_allclose(before.decision, recorded.decision, rtol=0, atol=1e-9)
        np.testing.assert_allclose(state.multipliers, recorded.multipliers, rtol=0, atol=1e-9)


class Sealed:
    """An environment whose truth raises when touched."""

    def __init__(self, world):
        self._world = world

    def sample(self, key, theta, n):
        return self._world.sample(key, theta, n)

    @property
    def effect(self):
        raise AssertionError("a method looked at the truth")

    base = shift = effect


class SealedTree(Sealed):
    pass


jax.tree_util.register_pytree_node(SealedTree, lambda s: ((s._world,), None), lambda _, c: SealedTree(c[0]))


@pytest.mark.slow
def test_no_method_but_the_oracle_needs_the_truth(small, reference):
    problem, world, effect = small
    learning = {name: method for name, method in methods(problem, effect).items() if name != "oracle"}
    best = pf.performative_optimum(problem, world)
    blind = pf.simulate(learning, SealedTree(world), rounds=60, realizations=6, seed=3, batch=3, optimum=best)
    measured = reference.sel({"algorithm": list(learning)})
    np.testing.assert_allclose(blind.decision, measured.decision, rtol=0, atol=1e-9)
    np.testing.assert_allclose(blind.violation, measured.violation, rtol=0, atol=1e-9)
    apart = np.abs(blind.regret - measured.regret).isel(t=-1)
    assert np.all(apart < 5 * blind.regret_error.isel(t=-1))


@pytest.mark.slow
def test_instances_of_their_own_for_each_realization(small):
    """A list of problems and worlds runs as one batch, each realization on its own instance."""
    problem, _, effect = small
    worlds = [
        pf.LocationFamily(pf.Gaussian([1.0 + 0.1 * i, 1.2, 0.8], 0.1 * np.eye(3)), (0.5 + i) * effect) for i in range(3)
    ]
    together = pf.simulate({"apda": [pf.apda(problem, warmup=20)] * 3}, worlds, rounds=20, seed=1)
    assert together.sizes["realization"] == 3
    for i in range(3):
        many = pf.simulate({"apda": pf.apda(problem, warmup=20)}, worlds[i], rounds=20, realizations=3, seed=1)
        np.testing.assert_allclose(together.regret[0, i], many.regret[0, i], rtol=1e-10)


@pytest.mark.slow
def test_global_settings_stay_and_arithmetic_is_float64_under_float32(tmp_path):
    """In a process of its own, since it is about global settings: JAX in float32, strict promotion, another generator."""
    script = textwrap.dedent(
        """
        import jax, jax.numpy as jnp, numpy as np
        jax.config.update("jax_numpy_dtype_promotion", "strict")
        jax.config.update("jax_default_prng_impl", "rbg")
        before = dict(jax.config.values)
        import performative as pf
        problem = pf.Problem(lambda t, z: -jnp.sum(z * t) + jnp.sum(t**2), pf.Box(np.zeros(2), np.ones(2)),
                             lambda t: jnp.sum(t)[None] - jnp.float64(0.5) if jax.config.jax_enable_x64 else t[:1])
        world = pf.LocationFamily(pf.Gaussian(np.ones(2), 0.1 * np.eye(2)), 0.2 * np.eye(2))
        method = pf.apda(problem, warmup=5)
        out = pf.simulate({"apda": method}, world, rounds=5, realizations=2, seed=0)
        assert out.regret.dtype == np.float64
        state = method.init(jax.random.key(0))
        state = method.tell(state, method.ask(state, jax.random.key(1)), np.ones((1, 5, 2)))
        assert state.decision.dtype == np.float64, state.decision.dtype
        assert dict(jax.config.values) == before
        assert jnp.ones(2).dtype == np.float32
        print(repr(float(out.regret[0, 0, -1])))
        """
    )
    first = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stderr
    problem = pf.Problem(
        lambda t, z: -jnp.sum(z * t) + jnp.sum(t**2), pf.Box(np.zeros(2), np.ones(2)), lambda t: jnp.sum(t)[None] - 0.5
    )
    world = pf.LocationFamily(pf.Gaussian(np.ones(2), 0.1 * np.eye(2)), 0.2 * np.eye(2))
    here = pf.simulate({"apda": pf.apda(problem, warmup=5)}, world, rounds=5, realizations=2, seed=0)
    assert float(first.stdout) == float(here.regret[0, 0, -1])


def test_attributes_tell_how_to_run_it_again(reference):
    assert reference.attrs["seed"] == 3
    assert reference.attrs["rounds"] == 60
    described = json.loads(reference.attrs["methods"])
    assert described["recycle"]["step"] == 5e-3
    assert described["recycle"]["problem"]["constraints"][0]["bound"] == [0.8]
    assert "return_loss" in described["recycle"]["problem"]["loss"]["function"]
    assert json.loads(reference.attrs["environment"])["base"]["mean"] == [1.0, 1.2, 0.8]


@pytree()
class Alternating(Planner):
    """Plans in every other round, beginning with number `first`."""

    problem: pf.Problem
    first: int

    def plans(self, round):
        return (round + self.first) % 2 == 0


@pytest.mark.filterwarnings("ignore:regret is measured against")
def test_the_plan_of_methods_that_differ_in_numbers_is_compiled_once():
    compiled, problem = [], Planner().problem
    methods = {"one": Alternating(problem, 0), "other": Alternating(problem, 1)}
    with told_of_compiling(compiled.append):
        pf.simulate(methods, ECHO, rounds=4, realizations=2)
    assert compiled.count("plan") == 1
