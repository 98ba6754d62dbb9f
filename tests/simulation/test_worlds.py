"""What `simulate` refuses before any work."""

from __future__ import annotations

import re

import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import performative as pf
from performative import constraints
from performative.numerics.precision import precise
from performative.simulation import simulate as simulating
from performative.simulation import truths, worlds
from performative.simulation.dataset import recorded_rounds
from performative.simulation.truths import Measures


def loss(theta, z):
    return 0.5 * jnp.sum((z - theta) ** 2)


SQUARE = pf.Box([-1.0, -1.0], [1.0, 1.0])


PROBLEM = pf.Problem(loss, SQUARE)


BASE = pf.Gaussian([0.0, 0.0], [1.0, 1.0])


WORLD = pf.LocationFamily(BASE, 0.1 * np.eye(2))


def problem(rules=None, decisions=SQUARE, dimension=None):
    return pf.Problem(loss, decisions, rules, dimension)


def refused(message, call, kind=ValueError):
    """`call` raises `kind` with `message`, literally, in it."""
    with pytest.raises(kind, match=re.escape(message)):
        call()


LOW = constraints.Linear([1.0, 0.0], -0.5, name="low")


@pytest.fixture
def no_work(monkeypatch):
    """Fail if anything is solved or run."""

    def never(*arguments, **options):
        raise AssertionError("work was done before the arguments were checked")

    monkeypatch.setattr(truths, "performative_optimum", never)
    monkeypatch.setattr(simulating, "run_jobs", never)


METHODS = {"apda": pf.apda(PROBLEM, warmup=2)}


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, "`rounds` must be a whole number >= 1, but got rounds=0"),
        ({"rounds": -3}, "`rounds` must be a whole number >= 1, but got rounds=-3"),
        ({"rounds": 1.5}, "`rounds` must be a whole number >= 1, but got rounds=1.5"),
        ({"rounds": True}, "`rounds` must be a whole number >= 1, but got rounds=True"),
        ({"realizations": 0}, "`realizations` must be a whole number >= 1, but got realizations=0"),
        ({"realizations": 2.0}, "`realizations` must be a whole number >= 1, but got realizations=2.0"),
        ({"seed": -1}, "`seed` must be a whole number >= 0, but got seed=-1"),
        ({"seed": 2**70}, f"`seed` must be at most {2**63 - 1}, but got seed={2**70}"),
        ({"batch": 0}, "`batch` must be a whole number >= 1, but got batch=0"),
        ({"workers": 0}, "`workers` must be a whole number >= 1, but got workers=0"),
        ({"chunk": 0}, "`chunk` must be a whole number >= 1, but got chunk=0"),
        ({"record": 1}, "`record` must be a whole number >= 2, but got record=1"),
        ({"record": [0]}, "`record` must be a whole number >= 1, but got record=0"),
        ({"record": [1, 6]}, "`record` must lie within 1..5, but got 6"),
        ({"record": 2.5}, "`record` must be"),
    ],
)
def test_bad_options_of_a_simulation_are_refused_before_any_work(options, message):
    refused(message, lambda: pf.simulate(METHODS, WORLD, **{"rounds": 5, **options}))


def test_the_number_of_records_may_be_a_numpy_integer():
    assert recorded_rounds(100, np.int64(5)) == recorded_rounds(100, 5)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize(
    ("methods", "kind", "message"),
    [
        ({}, ValueError, "`methods` must be a mapping from names (strings) to methods, with at least one, but got {}"),
        (METHODS["apda"], ValueError, "`methods` must be a mapping from names (strings) to methods"),
        ([METHODS["apda"]], ValueError, "`methods` must be a mapping from names (strings) to methods"),
        (
            {"apda": 3},
            TypeError,
            "`methods['apda']` must be a method such as performative.apda(problem), "
            "with init, ask, wanted, tell and problem, but got 3",
        ),
        ({"apda": pf.apda}, TypeError, "`methods['apda']` must be a method such as performative.apda(problem)"),
        (
            {"apda": None},
            TypeError,
            "`methods['apda']` must be a method such as performative.apda(problem), "
            "with init, ask, wanted, tell and problem, but got None",
        ),
        ({"apda": []}, ValueError, "lists of instances must be nonempty and of the same length"),
    ],
    ids=["none", "bare", "list", "number", "uncalled", "None", "empty list"],
)
def test_bad_methods_of_a_simulation_are_refused(methods, kind, message):
    refused(message, lambda: pf.simulate(methods, WORLD, rounds=5), kind)


@pytest.mark.usefixtures("no_work")
def test_bad_worlds_and_problems_of_a_simulation_are_refused():
    refused(
        "`environment` must have sample(key, theta, n), but got 3", lambda: pf.simulate(METHODS, 3, rounds=5), TypeError
    )
    refused("`problem` must be", lambda: pf.simulate(METHODS, WORLD, rounds=5, problem="x"), TypeError)


@pytest.mark.usefixtures("no_work")
def test_a_bad_optimum_of_a_simulation_is_refused():
    refused("`optimum` must be", lambda: pf.simulate(METHODS, WORLD, rounds=5, optimum="x"), TypeError)


@pytest.mark.usefixtures("no_work")
def test_lists_of_instances_of_different_lengths_are_refused():
    method = METHODS["apda"]
    refused(
        "lists of instances must be nonempty and of the same length, but got {\"methods['apda']\": 2, 'environment': 3}",
        lambda: pf.simulate({"apda": [method] * 2}, [WORLD] * 3, rounds=5),
    )


OTHER_SIZE = pf.LocationFamily(pf.Empirical(np.zeros((4, 2))), np.eye(2))


INSTANCES = {
    "settings": (
        {"apda": [pf.apda(PROBLEM, warmup=2), pf.apda(PROBLEM, warmup=3)]},
        WORLD,
        "`methods['apda'].estimator.warmup` is 3 instead of 2",
    ),
    "worlds": (METHODS, [WORLD, OTHER_SIZE], "`environment.base` has type Empirical instead of Gaussian"),
    "losses": (
        {"apda": [pf.apda(pf.Problem(Partial(f), SQUARE), warmup=2) for f in (loss, lambda t, z: loss(t, z))]},
        WORLD,
        "`methods['apda'].problem.loss` is another function; pass its numbers as "
        "jax.tree_util.Partial(function, numbers)",
    ),
    "shapes": (
        METHODS,
        [pf.LocationFamily(pf.Empirical(np.zeros((n, 2))), np.eye(2)) for n in (3, 4)],
        "`environment.base.samples` has shape (4, 2) instead of (3, 2)",
    ),
}


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("case", INSTANCES)
def test_instances_and_variants_of_different_structure_are_refused(case):
    methods, world, found = INSTANCES[case]
    rule = "must have the structure of {} and differ only in its numbers, but " + found
    refused("instance 1 " + rule.format("instance 0"), lambda: pf.simulate(methods, world, rounds=5))

    def by_name(part):
        return dict(zip(("weak", "strong"), part, strict=True)) if isinstance(part, list) else part

    variants = {name: by_name(method) for name, method in methods.items()}
    message = "variant 'strong' " + rule.format("variant 'weak'")
    refused(message, lambda: pf.simulate(variants, by_name(world), rounds=5))
    assert len(message) < 250


@pytest.mark.usefixtures("no_work")
def test_an_instance_of_a_variant_of_different_structure_is_refused():
    methods = {"apda": {"low": [METHODS["apda"]] * 2, "high": [METHODS["apda"], pf.apda(PROBLEM, warmup=3)]}}
    refused(
        "instance 1 of variant 'high' must have the structure of instance 0 of variant 'low'",
        lambda: pf.simulate(methods, WORLD, rounds=5),
    )


@pytest.mark.usefixtures("no_work")
def test_methods_with_other_constraints_than_those_measured_are_refused():
    refused(
        "`methods['apda']` must have the measured constraints ('low',), but has ()",
        lambda: pf.simulate(METHODS, WORLD, rounds=5, problem=problem([LOW])),
    )


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("rows", [1, 3])
def test_a_known_effect_that_does_not_fit_the_world_is_refused(rows):
    # One row would broadcast over both numbers of a sample.
    method = pf.oracle(PROBLEM, effect=np.ones((rows, 2)), warmup=2)
    with pytest.raises(ValueError, match="effect"):
        pf.simulate({"oracle": method}, WORLD, rounds=5)


class Shifted:
    """A world that does not say how long a decision is."""

    def sample(self, key, theta, n):
        return jnp.broadcast_to(theta, (n, 2))


FREE = problem(decisions=pf.Ball(1.0))


def parts_of(methods, world, **others):
    """The one instance of a cast."""
    with precise():
        return worlds.make_worlds(worlds.Cast(methods, world, **others))[0][0]


def test_a_dimension_that_one_part_knows_is_that_of_all():
    """The world, another method or the problem to measure on tells each method that does not know its dimension."""
    free, fixed = pf.apda(FREE, warmup=2), pf.apda(FREE.of_dimension(2), warmup=2)
    for world in (
        parts_of({"free": free}, WORLD),
        parts_of({"free": free, "fixed": fixed}, Shifted()),
        parts_of({"fixed": fixed}, Shifted(), problem=FREE),
        parts_of({"free": free}, Shifted(), problem=FREE.of_dimension(2)),
    ):
        assert {method.problem.d for method in world.methods.values()} == {2}
        assert world.truth.problem.d == 2


@pytest.mark.usefixtures("no_work")
def test_parts_of_different_dimensions_are_refused():
    two, three = (pf.apda(FREE.of_dimension(d), warmup=2) for d in (2, 3))
    refused(
        "the problem has dimension 2, but `methods['b']` is for decisions of 3 numbers",
        lambda: pf.simulate({"a": two, "b": three}, Shifted(), rounds=5),
    )
    refused(
        "the problem has dimension 3, but `environment` is for decisions of 2 numbers",
        lambda: pf.simulate({"b": three}, WORLD, rounds=5),
    )
    refused(
        "the problem's dimension is unknown; pass `dimension=d` to Problem",
        lambda: pf.simulate({"a": pf.apda(FREE, warmup=2)}, Shifted(), rounds=5),
    )


@pytest.mark.usefixtures("no_work")
def test_a_plain_method_must_know_its_dimension_itself():
    class Plain:
        problem = FREE

        def init(self, key):
            raise AssertionError

        ask = wanted = tell = init

    refused(
        "the problem of a Plain must know its dimension; pass `dimension=2` to Problem",
        lambda: pf.simulate({"plain": Plain()}, WORLD, rounds=5),
    )


def test_one_problem_in_one_world_is_solved_once_however_many_instances(monkeypatch):
    solve, solved = truths.performative_optimum, []

    def counted(*arguments):
        solved.append(arguments)
        return solve(*arguments)

    monkeypatch.setattr(truths, "performative_optimum", counted)
    with precise():
        worlds.make_worlds(
            worlds.Cast({"apda": [pf.apda(PROBLEM, step=step) for step in (0.1, 0.2, 0.3)]}, WORLD), Measures([1, 2], 2)
        )
    assert len(solved) == 1
