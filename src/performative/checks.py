"""Conformance: the rules that every method keeps, as checks that a method of one's own can be put through.

    checks.require(method, environment)  # in a test of yours

Everything is computed in float64, as in a simulation. The environment must keep the rules too: samples that are a function of
the key, the decision and n.
"""

from __future__ import annotations

import functools
import random
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.engine import Batch, World, round_keys
from performative.precision import in_float64
from performative.problem import Problem
from performative.pytrees import as_node, pytree
from performative.randomness import new_key
from performative.simulation import make_worlds
from performative.validation import MOST_SEED, whole

AGREEMENT = 1e-9
"""How far two ways to the same number may differ, as a share of the largest number of the run."""
SMALL = 1e-3
"""The least size that differences are a share of: of a run of zeros, only rounding is left to compare."""
FEASIBLE = 1e-9
"""How large g(θ) may be at a deployment of a method that claims to be safe."""
TOGETHER = (0, 1, 2)
"""Realisations that are simulated together."""

Numbers = np.ndarray[Any, Any]


class Check(NamedTuple):
    """One rule: whether the method keeps it, and what shows that, in one line."""

    name: str
    passed: bool
    evidence: str


class NotConforming(AssertionError):
    """A method breaks a rule; `failed` holds the checks that say which."""

    def __init__(self, method: Any, failed: list[Check], count: int) -> None:
        self.failed = failed
        lines = [f"- {check.name}: {check.evidence}" for check in failed]
        rule = f"a method must pass all {count} checks of performative.checks"
        super().__init__("\n".join([f"{rule}, but {type(method).__name__} failed {len(failed)}:", *lines]))


@in_float64
def conformance(method: Any, environment: Any, *, rounds: int = 25, seed: int = 0) -> list[Check]:
    """Put a method through every check, over so many rounds against an environment.

    A method that misbehaves does not raise: an exception inside a check is a failed check, with the exception as evidence.
    What cannot be traced, or grows from round to round, cannot be simulated, so that the checks which compare with a simulation
    fail as well.
    """
    if not callable(getattr(environment, "sample", None)):
        raise TypeError(f"`environment` must have sample(key, theta, n), but got {environment!r}")
    trial = _Trial(method, environment, whole("rounds", rounds, 2), whole("seed", seed, 0, MOST_SEED))
    return [_checked(name, check, trial) for name, check in CHECKS.items()]


def require(method: Any, environment: Any, *, rounds: int = 25, seed: int = 0) -> None:
    """Raise `NotConforming`, which lists every failed check with its evidence, unless a method passes all of them."""
    results = conformance(method, environment, rounds=rounds, seed=seed)
    failed = [check for check in results if not check.passed]
    if failed:
        raise NotConforming(method, failed, len(results))


class _Broken(Exception):
    """A rule that is not kept; its message is the evidence."""


def _expect(kept: Any, evidence: str) -> None:
    if not kept:
        raise _Broken(evidence)


def _checked(name: str, check: Callable[[_Trial], str], trial: _Trial) -> Check:
    try:
        return Check(name, True, check(trial))
    except _Broken as broken:
        return Check(name, False, str(broken))
    except Exception as error:
        return Check(name, False, textwrap.shorten(f"{type(error).__name__}: {error}", 400, placeholder=" …"))


class _Seen(NamedTuple):
    """A copy of a state before round t, and of what it deployed; nothing was deployed from the last state."""

    t: int
    decision: Numbers
    multipliers: Numbers
    leaves: list[Numbers]
    structure: Any
    deployed: Numbers = np.zeros((0, 0))


class _Trial:
    """A method in an environment. What several checks look at is run once."""

    def __init__(self, given: Any, environment: Any, rounds: int, seed: int) -> None:
        self.given, self.environment, self.rounds, self.seed = given, environment, rounds, seed
        self.key = jax.random.fold_in(new_key(seed), 0)  # of realisation 0
        self.random = _global_random()

    @functools.cached_property
    def method(self) -> Any:
        """The method with its dimension known."""
        if self.given.problem.dimension is None:
            return self.given.of_dimension(self.environment.dimension)
        return self.given

    def start(self) -> Any:
        """The state that a simulation starts with."""
        return self.method.init(jax.random.fold_in(self.key, 0))

    def first(self, state: Any) -> int:
        """The first round: 0 is a warm-up."""
        return 0 if int(state.round) == 0 else 1

    def ask(self, state: Any, t: int) -> Array:
        """What round t deploys, with the key that a simulation has for it."""
        return self.method.ask(state, _keys(self.key, t, answers=0)[0])

    def answer(self, state: Any, decisions: Any, t: int) -> Array:
        """What the world answers, with the keys that a simulation has for it."""
        keys, wanted = _keys(self.key, t, answers=len(decisions))[1:], self.method.wanted(state)
        environment = as_node(self.environment)
        return jnp.stack([_sample(environment, key, x, wanted) for key, x in zip(keys, decisions, strict=True)])

    def play(self) -> list[_Seen]:
        """Ask, let the world answer and tell, by hand: all states from the first to the last."""
        state = self.start()
        rounds = range(self.first(state), self.rounds + 1)
        seen = []
        for t in rounds:
            before = _seen(state, t)
            decisions = self.ask(state, t)
            seen.append(before._replace(deployed=np.array(decisions)))
            state = self.method.tell(state, decisions, self.answer(state, decisions, t))
        return [*seen, _seen(state, self.rounds + 1)]

    @functools.cached_property
    def played(self) -> list[_Seen]:
        """One such run."""
        return self.play()

    def simulate(self, realizations: Sequence[int]) -> _Simulated:
        """What `performative.simulate` does: these realisations at once, in the compiled loop."""
        batch = Batch([[self._world]] * len(realizations), realizations, self.seed)
        recorded = []
        for t in range(1, self.rounds + 1):
            batch.advance(t + 1)
            run = batch.runs["method"]
            recorded.append((np.array(run.tally.decision), np.array(run.state.multipliers)))
        decisions, multipliers = zip(*recorded, strict=True)
        return _Simulated(np.stack(decisions), np.stack(multipliers))

    def alone(self, realization: int) -> _Simulated:
        """One realisation, in the company of copies of itself.

        The program is the one that runs different realisations together, which spares compiling another.
        """
        return self.simulate([realization] * len(TOGETHER)).of(0)

    @functools.cached_property
    def _world(self) -> World:
        """The method in its environment. No metrics of the truth: no optimum need be found."""
        return make_worlds({"method": self.method}, _Unmeasured(as_node(self.environment)), None, None)[0]


class _Simulated(NamedTuple):
    """θ_t and λ_{t+1} of every round t, arrays (round, d, realisation) and (round, m, realisation)."""

    decisions: Numbers
    multipliers: Numbers

    def of(self, position: int) -> _Simulated:
        """Those of one realisation."""
        return _Simulated(self.decisions[..., position], self.multipliers[..., position])

    def gap(self, other: _Simulated) -> float:
        """The largest difference, as a share of the largest number; nan if there is one anywhere."""
        return float(np.max([_gap(one, another) for one, another in zip(self, other, strict=True)]))


@pytree()
class _Unmeasured:
    """An environment that answers, and keeps its truth to itself."""

    environment: Any

    def __getattr__(self, name: str) -> Any:
        if name in ("sample", "normals", "respond"):
            return getattr(self.environment, name)
        raise AttributeError(name)


def _protocol(trial: _Trial) -> str:
    """A method has `init`, `ask`, `wanted`, `tell` and `problem`, and its state `round`, `decision` and `multipliers`.

    Round 0 is a warm-up; a method without one starts in round 1. Decisions (d,), deployments (b, d) and multipliers (m,) are
    finite, and multipliers are not negative. `wanted` is a whole number of samples.
    """
    for part in ("init", "ask", "wanted", "tell"):
        _expect(callable(getattr(trial.given, part, None)), f"`{part}` must be a function of the method, but is not")
    problem = getattr(trial.given, "problem", None)
    _expect(isinstance(problem, Problem), f"`problem` must be a performative.Problem, but got {type(problem).__name__}")
    problem, state = trial.method.problem, trial.start()
    for part in ("round", "decision", "multipliers"):
        _expect(hasattr(state, part), f"the state must have `{part}`, but {type(state).__name__} has not")
    _expect(int(state.round) in (0, 1), f"the first round must be 0 or 1, but got {state.round}")
    wanted = trial.method.wanted(state)
    whole_number = isinstance(wanted, int | np.integer) and wanted >= 1
    _expect(whole_number, f"`wanted` must be a whole number >= 1, but got {wanted!r}")
    d, m = problem.dimension, len(problem.constraint_names)
    asked = np.shape(trial.ask(state, trial.first(state)))
    _expect(len(asked) == 2 and asked[0] >= 1 and asked[1] == d, f"`ask` must return (b, {d}), but returned {asked}")
    for seen in trial.played:
        for name, value, shape in (("decision", seen.decision, (d,)), ("multipliers", seen.multipliers, (m,))):
            _expect(value.shape == shape, f"`{name}` must have shape {shape}, but got {value.shape} in round {seen.t}")
            _expect(np.all(np.isfinite(value)), f"`{name}` must be finite, but got {value} in round {seen.t}")
        least = np.min(seen.multipliers, initial=0.0)
        _expect(least >= 0, f"`multipliers >= 0` must hold, but got {least:.3g} in round {seen.t}")
        finite = np.all(np.isfinite(seen.deployed))
        _expect(finite, f"`ask` must return finite numbers, but got {seen.deployed} in round {seen.t}")
    count = sum(len(seen.deployed) for seen in trial.played)
    return f"{count} deployments in {trial.rounds} rounds, d = {d}, m = {m}, all finite; no multiplier below 0"


def _seeding(trial: _Trial) -> str:
    """All randomness is in the keys: the same ones give the same bits.

    The random state of NumPy and of Python, which all programs share, is neither used nor changed. What explores does not explore
    the same way in every round, as a method does that draws from one key of its own: with b ≤ d decisions it would never
    see the other directions.
    """
    played = trial.played
    rounds = [seen.deployed - seen.decision for seen in played[:-1] if seen.t >= 1]
    explored = rounds[0]
    stuck = len(explored) <= explored.shape[1] and np.any(explored) and len(rounds) > 1
    stuck = stuck and all(other.shape == explored.shape and _gap(other, explored) < 1e-9 for other in rounds)
    _expect(
        not stuck, f"`ask` must explore with its key, but every round deploys the decision plus {explored.tolist()}"
    )
    _expect_untouched(trial.random)  # since the very first run: what is compiled draws then, and never again
    state = trial.start()
    same = _same(_leaves(state), _leaves(trial.start()))
    _expect(same, "`init` must give the same bits for the same key, but differs")
    asked = [np.array(trial.ask(state, trial.first(state))) for _ in range(2)]
    _expect(_same(asked[:1], asked[1:]), "`ask` must give the same bits for the same key, but differs")
    kept = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        np.random.seed(1)  # noqa: NPY002
        random.seed(1)
        seeded = _global_random()
        again = trial.play()
        _expect_untouched(seeded)
    finally:
        np.random.set_state(kept[0])  # noqa: NPY002
        random.setstate(kept[1])
    for one, other in zip(played, again, strict=True):
        same = _same([*one.leaves, one.deployed], [*other.leaves, other.deployed])
        _expect(same, f"a run must give the same bits for the same seed, but differs in round {one.t}")
    return f"two runs of {trial.rounds} rounds gave the same bits; global random states untouched"


def _purity(trial: _Trial) -> str:
    """`ask` and `tell` change neither the state nor the arrays they are handed; telling the same twice gives the same state.

    Decisions and samples are handed over as NumPy arrays, which can be written to, as those of a live study can.
    """
    state = trial.start()
    for t in range(trial.first(state), trial.rounds + 1):
        before = _leaves(state)
        asked = trial.ask(state, t)
        _expect(_same(before, _leaves(state)), f"`ask` must not change the state, but did in round {t}")
        decisions, samples = np.array(asked), np.array(trial.answer(state, asked, t))
        handed = decisions.copy(), samples.copy()
        told = trial.method.tell(state, *handed)
        _expect(_same(before, _leaves(state)), f"`tell` must not change the state, but did in round {t}")
        for name, array, original in zip(("decisions", "samples"), handed, (decisions, samples), strict=True):
            _expect(_same([array], [original]), f"`tell` must not change `{name}`, but did in round {t}")
        again = trial.method.tell(state, *handed)
        same = _same(_leaves(told), _leaves(again))
        _expect(same, f"telling the same twice must give the same state, but differs in round {t}")
        state = told
    return f"{trial.rounds} rounds: states and arrays unchanged to the bit, every one told twice"


def _identity(trial: _Trial) -> str:
    """Asking and telling by hand, with the noise of a simulation, gives the simulation's decisions and multipliers.

    A method that offers `normals` and `decide` is simulated with them, so this is where they must agree with `ask`.
    """
    played = [seen for seen in trial.played if seen.t >= 1]
    decisions = np.stack([seen.decision for seen in played[:-1]])
    multipliers = np.stack([seen.multipliers for seen in played[1:]])
    gap = _Simulated(decisions, multipliers).gap(trial.alone(0))
    how = f"differ by {gap:.1e} of the largest number over {trial.rounds} rounds"
    _expect(gap <= AGREEMENT, f"simulation and ask/tell must agree to {AGREEMENT:g}, but {how}")
    return f"simulation and ask/tell {how}"


def _feasibility(trial: _Trial) -> str:
    """The current decision lies in Θ in every round.

    For a method whose attribute `feasible` is True every deployment lies in Θ as well, and meets g(θ) ≤ 0 up to rounding.
    """
    problem = trial.method.problem
    for seen in trial.played:
        inside = problem.decisions.contains(seen.decision)
        _expect(inside, f"the decision must lie in the set, but is {seen.decision} in round {seen.t}")
    found = f"{len(trial.played)} decisions in the set"
    if getattr(trial.method, "feasible", False) is not True:
        return f"{found}; the method makes no claim for what it deploys"
    deployed = [(seen.t, decision) for seen in trial.played for decision in seen.deployed]
    worst = -np.inf
    for t, decision in deployed:
        inside = problem.decisions.contains(decision)
        _expect(inside, f"a deployment must lie in the set, but is {decision} in round {t}")
        value = np.max(np.asarray(problem.g(decision)), initial=-np.inf)
        _expect(value <= FEASIBLE, f"`g <= {FEASIBLE:g}` must hold at a deployment, but is {value:.3g} in round {t}")
        worst = max(worst, float(value))
    return f"{found}, and {len(deployed)} deployments, where g is at most {worst:.3g}"


def _bounded(trial: _Trial) -> str:
    """The state does not grow: its arrays have the same shapes and types after half of the rounds and after all of them."""
    half = trial.rounds // 2
    early, late = trial.played[half - trial.rounds - 1], trial.played[-1]
    sizes = [f"{sum(leaf.nbytes for leaf in seen.leaves):,} bytes" for seen in (early, late)]
    same = early.structure == late.structure and all(
        (one.shape, one.dtype) == (other.shape, other.dtype)
        for one, other in zip(early.leaves, late.leaves, strict=True)
    )
    found = f"{sizes[0]} after {half} rounds and {sizes[1]} after {trial.rounds}"
    _expect(same, f"the arrays of a state must keep their shapes and types, but take {found}")
    return f"{len(late.leaves)} arrays of the same shapes and types, {found}"


def _traceable(trial: _Trial) -> str:
    """`init`, `ask` and `tell` can be compiled by JAX, with the numbers of the method and of the state unknown."""

    def one_round(method: Any, state: Any, key: Array) -> Any:
        decisions, wanted = method.ask(state, key), method.wanted(state)
        samples = [trial.environment.sample(key, decision, wanted) for decision in decisions]
        return method.tell(state, decisions, jnp.stack(samples))

    method = as_node(trial.method)
    start = jax.eval_shape(lambda method, key: method.init(key), method, trial.key)
    first = jax.eval_shape(one_round, method, start, trial.key)  # a warm-up, where there is one
    program = jax.make_jaxpr(one_round)(method, first, trial.key)
    return f"a round is traced, a program of {len(program.eqns)} operations to compile"


def _batching(trial: _Trial) -> str:
    """A realisation does not feel those it is simulated with: all together give the numbers that each gives alone."""
    together = trial.simulate(TOGETHER)
    gap = np.max([together.of(position).gap(trial.alone(r)) for position, r in enumerate(TOGETHER)])
    how = f"differ by {gap:.1e} of the largest number over {trial.rounds} rounds"
    _expect(gap <= AGREEMENT, f"{len(TOGETHER)} realisations together and alone must agree to {AGREEMENT:g}, but {how}")
    return f"{len(TOGETHER)} realisations together and alone {how}"


CHECKS: Mapping[str, Callable[[_Trial], str]] = {
    "protocol": _protocol,
    "seeding": _seeding,
    "purity": _purity,
    "ask/tell identity": _identity,
    "feasibility": _feasibility,
    "bounded state": _bounded,
    "traceable": _traceable,
    "batching": _batching,
}


_keys = jax.jit(round_keys, static_argnames="answers")


@functools.partial(jax.jit, static_argnames="n")
def _sample(environment: Any, key: Array, decision: Array, n: int) -> Array:
    return environment.sample(key, decision, n)


def _seen(state: Any, t: int) -> _Seen:
    copies = np.array(state.decision), np.array(state.multipliers)
    return _Seen(t, *copies, _leaves(state), jax.tree.structure(state))


def _leaves(state: Any) -> list[Numbers]:
    """Copies of all arrays of a state, keys as their words."""
    copies = []
    for leaf in jax.tree.leaves(state):
        if jnp.issubdtype(getattr(leaf, "dtype", np.float64), jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        copy = np.array(leaf)
        if copy.dtype.kind not in "biufc":
            raise TypeError(f"a state must be a pytree of numbers, but holds a {type(leaf).__name__}")
        copies.append(copy)
    return copies


def _same(one: list[Numbers], other: list[Numbers]) -> bool:
    """Whether two lists of arrays are the same, bit for bit."""
    return [_identified(array) for array in one] == [_identified(array) for array in other]


def _identified(array: Numbers) -> tuple[Any, ...]:
    return array.shape, array.dtype, array.tobytes()


def _gap(one: Numbers, other: Numbers) -> float:
    largest = np.max(np.abs(other), initial=SMALL)
    return float(np.max(np.abs(one - other), initial=0.0) / largest)


def _expect_untouched(before: dict[str, Any]) -> None:
    for name, now in _global_random().items():
        _expect(now == before[name], f"the global random state of {name} must not be touched, but was")


def _global_random() -> dict[str, Any]:
    """The random states that all programs share, in a form that compares."""
    kind, words, *rest = np.random.get_state()  # noqa: NPY002
    return {"numpy": (kind, np.asarray(words).tobytes(), *rest), "Python": random.getstate()}
