import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf


def demand(rng, price, n):
    return 4.0 - price[0] + 0.5 * rng.normal(size=n)


class Remembering:
    """Demand follows a moving average of past prices."""

    def __init__(self):
        self.habit = 0.0

    def sample(self, rng, price, n):
        self.habit = 0.5 * self.habit + 0.5 * price[0]
        return 4.0 - self.habit + 0.5 * rng.normal(size=n)


PROBLEM = pf.Problem(lambda price, demand: -price[0] * demand[0], pf.Box([0.0], [5.0]))
METHODS = {"apda": pf.apda(PROBLEM, warmup=5), "rgd": pf.repeated_gradient(PROBLEM, step=0.1)}


def test_samples_are_a_function_of_the_key_inside_and_outside_of_programs():
    world = pf.HostWorld(demand)
    with jax.enable_x64(True):
        keys = [jax.random.key(seed) for seed in (0, 0, 1)]
        theta = jnp.asarray([1.0 / 3.0])
        first, again, other = (np.asarray(world.sample(key, theta, 4)) for key in keys)
        compiled = np.asarray(jax.jit(lambda key, theta: world.sample(key, theta, 4))(keys[0], theta))
    assert first.shape == (4, 1)
    assert first.dtype == np.float64
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, compiled)  # to the last bit, though JAX calls back in single precision
    assert not np.array_equal(first, other)


def test_a_numpy_simulator_meets_new_noise_in_every_round_and_realization():
    seen = []

    def recorded(rng, price, n):
        samples = demand(rng, price, n)
        seen.append(samples[0] + price[0])
        return samples

    runs = pf.simulate(
        {"rgd": METHODS["rgd"]},
        pf.HostWorld(recorded),
        rounds=6,
        realizations=2,
        samples=2,
        optimum=pf.Solution.of(np.array([2.0]), np.zeros(0), -4.0, 0.0, False, "closed form"),
    )
    assert len(np.unique(np.round(seen, 12))) >= 12  # 6 rounds of 2 realizations
    assert np.all(np.isfinite(runs.regret))


@pytest.mark.slow
def test_each_run_has_a_simulator_of_its_own():
    world = pf.HostWorld(Remembering)
    both = pf.simulate(METHODS, world, rounds=8, realizations=3)
    alone = pf.simulate({"rgd": METHODS["rgd"]}, world, rounds=8, realizations=3)
    np.testing.assert_array_equal(both.sel(algorithm="rgd").decision.values, alone.sel(algorithm="rgd").decision.values)
    copied = pf.simulate({"rgd": METHODS["rgd"]}, pf.HostWorld(Remembering()), rounds=8, realizations=3)
    np.testing.assert_array_equal(alone.decision.values, copied.decision.values)


def test_simulators_are_let_go_of_when_their_runs_end():
    world = pf.HostWorld(Remembering)
    pf.simulate(METHODS, world, rounds=3, realizations=2)
    assert not world._runs


def test_a_simulator_that_remembers_agrees_with_the_same_world_in_jax():
    class Habit:
        def init(self, key):
            return jnp.zeros(())

        def sample(self, key, theta, n, state):
            state = 0.5 * state + 0.5 * theta[0]
            return jnp.full((n, 1), 4.0 - state), state

    class HostHabit(Remembering):
        def sample(self, rng, price, n):
            self.habit = 0.5 * self.habit + 0.5 * price[0]
            return np.full(n, 4.0 - self.habit)

    inside = pf.simulate({"rgd": METHODS["rgd"]}, Habit(), rounds=8, realizations=2)
    outside = pf.simulate({"rgd": METHODS["rgd"]}, pf.HostWorld(HostHabit), rounds=8, realizations=2)
    np.testing.assert_allclose(inside.decision.values, outside.decision.values, rtol=1e-12)
    np.testing.assert_allclose(inside.loss.values, outside.loss.values, rtol=1e-12)


def test_an_error_of_the_simulator_is_the_cause_of_what_is_raised():
    class Fails(Remembering):
        def sample(self, rng, price, n):
            if price[0] > 0.5:
                raise RuntimeError("price too high")
            return super().sample(rng, price, n)

    with pytest.raises(pf.SimulatorFailed, match="RuntimeError: price too high") as caught:
        pf.simulate({"rgd": METHODS["rgd"]}, pf.HostWorld(Fails), rounds=40, realizations=2)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_memory_cannot_be_checkpointed(tmp_path):
    with pytest.raises(ValueError, match="memory cannot be resumed"):
        pf.simulate(METHODS, pf.HostWorld(Remembering), rounds=4, realizations=2, checkpoint=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("sample", "error", "message"),
    [
        (3.0, TypeError, "must be a function of"),
        (lambda theta, n: None, TypeError, "must take"),
        (lambda rng, theta, n: np.zeros(n + 1), ValueError, "must return samples"),
        (lambda rng, theta, n: ["a"] * n, TypeError, "array of numbers"),
        (lambda rng, theta, n: np.full(n, np.nan), ValueError, "finite"),
    ],
)
def test_bad_simulators_are_refused(sample, error, message):
    with pytest.raises(error, match=message):
        pf.performative_risk(PROBLEM, pf.HostWorld(sample), [1.0], samples=10)


def test_a_simulator_in_another_process_fits(tmp_path):
    script = tmp_path / "simulator.py"
    script.write_text(
        "import sys, numpy as np\n"
        "for line in sys.stdin:\n"
        "    seed, price, n = line.split()\n"
        "    rng = np.random.default_rng(int(seed))\n"
        "    print(*(4.0 - float(price) + 0.5 * rng.normal(size=int(n))), flush=True)\n"
    )
    import subprocess

    with subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def sample(rng, price, n):
            process.stdin.write(f"{rng.integers(2**31)} {price[0]} {n}\n")
            process.stdin.flush()
            return [float(number) for number in process.stdout.readline().split()]

        risk = pf.performative_risk(PROBLEM, pf.HostWorld(sample), [2.0], samples=2000)
        process.stdin.close()
    assert abs(risk + 4.0) < 5 * risk.standard_error
