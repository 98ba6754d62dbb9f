"""The rules that every method keeps."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from performative.checks.equality import gap, leaves, same_bits
from performative.checks.trial import TOGETHER, Simulated, Snapshot, Trial
from performative.methods.protocol import Method, plans_ahead
from performative.numerics.pytrees import as_node
from performative.problem import Problem
from performative.purity import global_random

AGREEMENT = 1e-9
"""How far two ways to the same number may differ, relative to the largest number of the run."""
ROUNDING = 1e-12
"""How far a deployment that does not explore may be from the decision, relative to the largest number."""
FEASIBLE = 1e-9
"""How large g(θ) may be at a deployment of a method that claims to be safe."""


class Broken(Exception):
    """A rule that the method breaks; the message is the evidence."""


def _expect(holds: bool | np.bool, evidence: str) -> None:
    if not holds:
        raise Broken(evidence)


def _protocol(trial: Trial) -> str:
    """A method has `init`, `ask`, `wanted`, `tell` and `problem`, and its state `round`, `decision` and `multipliers`.

    Round 0 is a warm-up; a method without one starts in round 1. Decisions (d,), deployments (b, d) and multipliers (m,) are
    finite, and multipliers are not negative. `wanted` is a whole number of samples.
    """
    for part in ("init", "ask", "wanted", "tell"):
        _expect(
            callable(getattr(trial.candidate, part, None)), f"`{part}` must be a function of the method, but is not"
        )
    problem = getattr(trial.candidate, "problem", None)
    _expect(isinstance(problem, Problem), f"`problem` must be a performative.Problem, but got {type(problem).__name__}")
    problem, state = trial.method.problem, trial.start()
    for part in ("round", "decision", "multipliers"):
        _expect(hasattr(state, part), f"the state must have `{part}`, but {type(state).__name__} does not")
    _expect(int(state.round) in (0, 1), f"the first round must be 0 or 1, but got {state.round}")
    wanted = trial.method.wanted(state)
    whole_number = isinstance(wanted, int | np.integer) and wanted >= 1
    _expect(whole_number, f"`wanted` must be a whole number >= 1, but got {wanted!r}")
    d, m = problem.d, len(problem.constraint_names)
    shape = np.shape(trial.ask(state, trial.first(state)))
    _expect(len(shape) == 2 and shape[0] >= 1 and shape[1] == d, f"`ask` must return (b, {d}), but returned {shape}")
    for snapshot in trial.snapshots:
        for name, value, expected in (
            ("decision", snapshot.decision, (d,)),
            ("multipliers", snapshot.multipliers, (m,)),
        ):
            _expect(
                value.shape == expected,
                f"`{name}` must have shape {expected}, but got {value.shape} in round {snapshot.t}",
            )
            _expect(np.all(np.isfinite(value)), f"`{name}` must be finite, but got {value} in round {snapshot.t}")
        least = np.min(snapshot.multipliers, initial=0.0)
        _expect(least >= 0, f"`multipliers >= 0` must hold, but got {least:.3g} in round {snapshot.t}")
        finite = np.all(np.isfinite(snapshot.deployed))
        _expect(finite, f"`ask` must return finite numbers, but got {snapshot.deployed} in round {snapshot.t}")
    count = sum(len(snapshot.deployed) for snapshot in trial.snapshots)
    return f"{count} deployments in {trial.rounds} rounds, d = {d}, m = {m}, all finite; no multiplier below 0"


def _seeding(trial: Trial) -> str:
    """All randomness is in the keys: the same ones give the same bits.

    The random states of NumPy and of Python, which all programs share, are neither used nor changed. A method that explores
    does not explore the same way in every round, as it would with one fixed key: with b ≤ d decisions it would never see the
    other directions. A method that plans ahead says so by `plans`: the state knows its probes, and the key changes nothing.
    """
    snapshots = trial.snapshots
    if plans_ahead(trial.method):
        state = trial.start()
        first = trial.ask(state, trial.first(state))
        state = trial.method.tell(state, first, trial.answer(state, first, trial.first(state)))
        decisions = [np.array(trial.ask(state, t)) for t in (1, 2)]
        _expect(same_bits(decisions[:1], decisions[1:]), "`ask` must deploy what was planned, but its key changes it")
    else:
        _expect_exploration([one for one in snapshots[:-1] if one.t >= 1])
    _expect_untouched(trial.random)  # since the very first run: compiled code draws then, and never again
    state = trial.start()
    same = same_bits(leaves(state), leaves(trial.start()))
    _expect(same, "`init` must give the same bits for the same key, but differs")
    decisions = [np.array(trial.ask(state, trial.first(state))) for _ in range(2)]
    _expect(same_bits(decisions[:1], decisions[1:]), "`ask` must give the same bits for the same key, but differs")
    before = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        np.random.seed(1)  # noqa: NPY002
        random.seed(1)
        seeded = global_random()
        again = trial.play()
        _expect_untouched(seeded)
    finally:
        np.random.set_state(before[0])  # noqa: NPY002
        random.setstate(before[1])
    for one, other in zip(snapshots, again, strict=True):
        same = same_bits([*one.leaves, one.deployed], [*other.leaves, other.deployed])
        _expect(same, f"a run must give the same bits for the same seed, but differs in round {one.t}")
    return f"two runs of {trial.rounds} rounds gave the same bits; global random states untouched"


def _expect_exploration(snapshots: list[Snapshot]) -> None:
    """Refuse rounds that all deploy the same decisions around θ_t; rounding is no exploration."""
    rounds = [one.deployed - one.decision for one in snapshots]
    explored, explores = rounds[0], gap(snapshots[0].deployed, snapshots[0].decision[None]) > ROUNDING
    stuck = len(explored) <= explored.shape[1] and explores and len(rounds) > 1
    stuck = stuck and all(other.shape == explored.shape and gap(other, explored) < 1e-9 for other in rounds)
    _expect(
        not stuck, f"`ask` must explore with its key, but every round deploys the decision plus {explored.tolist()}"
    )


def _purity(trial: Trial) -> str:
    """`ask` and `tell` change neither the state nor the arrays they receive; telling it the same twice gives the same state.

    They receive decisions and samples as NumPy arrays, which can be written to, as in a live study.
    """
    state = trial.start()
    tell: Callable[..., Any] = trial.method.tell
    for t in range(trial.first(state), trial.rounds + 1):
        before = leaves(state)
        deployed = trial.ask(state, t)
        _expect(same_bits(before, leaves(state)), f"`ask` must not change the state, but did in round {t}")
        decisions, samples = np.array(deployed), np.array(trial.answer(state, deployed, t))
        arguments = decisions.copy(), samples.copy()
        after = tell(state, *arguments)
        _expect(same_bits(before, leaves(state)), f"`tell` must not change the state, but did in round {t}")
        for name, array, original in zip(("decisions", "samples"), arguments, (decisions, samples), strict=True):
            _expect(same_bits([array], [original]), f"`tell` must not change `{name}`, but did in round {t}")
        again = tell(state, *arguments)
        same = same_bits(leaves(after), leaves(again))
        _expect(same, f"two identical calls of `tell` must give the same state, but the states differ in round {t}")
        state = after
    return f"{trial.rounds} rounds: states and arrays unchanged bit for bit, each `tell` called twice"


def _identity(trial: Trial) -> str:
    """Asking and telling by hand, with the noise of a simulation, gives the simulation's decisions and multipliers.

    A method that offers `normals` and `decide` is simulated with them, so they must agree with `ask`.
    """
    snapshots = [snapshot for snapshot in trial.snapshots if snapshot.t >= 1]
    decisions = np.stack([snapshot.decision for snapshot in snapshots[:-1]])
    multipliers = np.stack([snapshot.multipliers for snapshot in snapshots[1:]])
    difference = Simulated(decisions, multipliers).gap(trial.alone(0))
    how = f"differ by {difference:.1e} of the largest number over {trial.rounds} rounds"
    _expect(difference <= AGREEMENT, f"simulation and ask/tell must agree to {AGREEMENT:g}, but {how}")
    return f"simulation and ask/tell {how}"


def _feasibility(trial: Trial) -> str:
    """The current decision lies in Θ in every round.

    For a method whose attribute `feasible` is True every deployment lies in Θ as well, and meets g(θ) ≤ 0 up to rounding.
    """
    problem = trial.method.problem
    for snapshot in trial.snapshots:
        inside = problem.decisions.contains(snapshot.decision)
        _expect(inside, f"the decision must lie in the set, but is {snapshot.decision} in round {snapshot.t}")
    evidence = f"{len(trial.snapshots)} decisions in the set"
    if getattr(trial.method, "feasible", False) is not True:
        return f"{evidence}; the method makes no claim about its deployments"
    deployed = [(snapshot.t, decision) for snapshot in trial.snapshots for decision in snapshot.deployed]
    worst = -np.inf
    for t, decision in deployed:
        inside = problem.decisions.contains(decision)
        _expect(inside, f"a deployment must lie in the set, but is {decision} in round {t}")
        value = np.max(np.asarray(problem.g(decision)), initial=-np.inf)
        _expect(value <= FEASIBLE, f"`g <= {FEASIBLE:g}` must hold at a deployment, but is {value:.3g} in round {t}")
        worst = max(worst, float(value))
    return f"{evidence}, and {len(deployed)} deployments, where g is at most {worst:.3g}"


def _bounded(trial: Trial) -> str:
    """The state does not grow: its arrays have the same shapes and types after half of the rounds and after all of them."""
    half = trial.rounds // 2
    early, late = trial.snapshots[half - trial.rounds - 1], trial.snapshots[-1]
    sizes = [f"{sum(leaf.nbytes for leaf in snapshot.leaves):,} bytes" for snapshot in (early, late)]
    same = early.structure == late.structure and all(
        (one.shape, one.dtype) == (other.shape, other.dtype)
        for one, other in zip(early.leaves, late.leaves, strict=True)
    )
    growth = f"{sizes[0]} after {half} rounds and {sizes[1]} after {trial.rounds}"
    _expect(same, f"the arrays of a state must keep their shapes and types, but take {growth}")
    return f"{len(late.leaves)} arrays of the same shapes and types, {growth}"


def _traceable(trial: Trial) -> str:
    """`init`, `ask` and `tell` can be compiled by JAX, with the numbers of the method and of the state as unknowns."""

    def one_round(method: Method, state: Any, key: Array) -> Any:
        decisions, wanted = method.ask(state, key), method.wanted(state)
        samples = [trial.environment.sample(key, decision, wanted) for decision in decisions]
        return method.tell(state, decisions, jnp.stack(samples))

    method = as_node(trial.method)
    start = jax.eval_shape(lambda method, key: method.init(key), method, trial.key)
    first = jax.eval_shape(one_round, method, start, trial.key)  # a warm-up, where there is one
    program = jax.make_jaxpr(one_round)(method, first, trial.key)
    return f"a round can be traced, as a program of {len(program.eqns)} operations"


def _batching(trial: Trial) -> str:
    """Realizations simulated together do not affect each other: all together give the numbers that each gives alone."""
    together = trial.simulate(TOGETHER)
    difference = np.max([together.of(position).gap(trial.alone(r)) for position, r in enumerate(TOGETHER)])
    how = f"differ by {difference:.1e} of the largest number over {trial.rounds} rounds"
    _expect(
        difference <= AGREEMENT,
        f"{len(TOGETHER)} realizations together and alone must agree to {AGREEMENT:g}, but {how}",
    )
    return f"{len(TOGETHER)} realizations together and alone {how}"


CHECKS: Mapping[str, Callable[[Trial], str]] = {
    "protocol": _protocol,
    "seeding": _seeding,
    "purity": _purity,
    "ask/tell identity": _identity,
    "feasibility": _feasibility,
    "bounded state": _bounded,
    "traceable": _traceable,
    "batching": _batching,
}
"""Every rule by name; each returns the evidence that a method keeps it, or raises `Broken`."""


def _expect_untouched(before: dict[str, tuple[Any, ...]]) -> None:
    for name, now in global_random().items():
        _expect(now == before[name], f"the global random state of {name} must not be touched, but was")
