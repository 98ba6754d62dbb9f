"""Slater's condition: what is lost without it, and when it holds."""

from __future__ import annotations

import functools
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

import performative as pf
from performative import steps, theory
from performative.numerics.precision import in_float64, precise
from performative.numerics.pytrees import changed
from performative.theory.landscape import Landscape
from performative.theory.report import report
from performative.theory.slater import Slater, multipliers, slater

ROOT = Path(__file__).parent.parent.parent
HORIZONS = (1_000, 10_000, 100_000, 1_000_000)


def without_multipliers():
    """PR = ½(θ − 1)² on [−1, 1] with g = θ² ≤ 0: θ_PO = 0, and no λ makes 0 the minimizer of PR + λg."""
    problem = pf.Problem(
        lambda theta, z: 0.5 * jnp.sum((theta - 1.0) ** 2), pf.Ball(1.0), [pf.constraints.Quadratic([[1.0]], 0.0)]
    )
    return problem, pf.LocationFamily(pf.Gaussian(0.0, 0.0), [[0.0]])


@functools.cache
@in_float64
def exact_run(rounds):
    """Σ g(θ_t) and Σ PR(θ_t) − PR(θ_PO) with exact gradients and the theorem's η and δ, and δ."""
    options = steps.theorem(rounds, lipschitz=2.0, dimension=1)
    violation, regret = _sums(rounds, options["step"], options["control"])
    return float(violation), float(regret), options["control"]


@jax.jit
def _sums(rounds, eta, delta):
    def round_(_, carry):
        theta, lam, violation, regret = carry
        g = theta**2
        moved = jnp.clip(theta - eta * (theta - 1 + 2 * lam * theta), -1, 1)
        lam = jnp.maximum(lam + eta * (g - delta * eta * lam), 0.0)
        return moved, lam, violation + g, regret + 0.5 * (theta - 1) ** 2 - 0.5

    return jax.lax.fori_loop(0, rounds, round_, (jnp.zeros(()),) * 4)[2:]


def arguments(control):
    return {
        "convexity": 1.0, "radius": 1.0, "constraint_bound": 1.0, "constraint_lipschitz": 2.0, "lipschitz": 2.0,
        "control": control,
    }  # fmt: skip


def test_without_slaters_condition_the_printed_rate_is_false():
    """Slip 23: the violation grows like T^(2/3) and passes the printed bound; what holds without λ* covers every run."""
    for rounds in HORIZONS:
        violation, regret, control = exact_run(rounds)
        assert 0 < violation <= theory.violation_without_slater(rounds, 0.0, **arguments(control))
        assert regret <= theory.regret(rounds, 0.0, **arguments(control))
    printed = theory.violation(rounds, 0.0, multipliers=0.0, as_printed=True, **arguments(control))
    assert (round(violation), round(printed)) == (36565, 30570)
    exponent = math.log(violation / exact_run(HORIZONS[-2])[0]) / math.log(rounds / HORIZONS[-2])
    assert 0.6 < exponent < 0.75
    with pytest.raises(ValueError, match="without Slater's condition there may be none"):
        theory.violation(rounds, 0.0, multipliers=math.inf, **arguments(control))


def test_multipliers_with_a_duality_gap_give_the_rate_in_between():
    """q(λ) = λ/(1 + 2λ) has the gap 1/(2 + 4λ) to PR(θ_PO) = ½; λ = T^(1/6)/8 gives a bound of order T^(2/3)."""
    for rounds in HORIZONS:
        violation, _, control = exact_run(rounds)
        assert violation <= in_between(rounds, control)
    assert in_between(10**19, 17.0) / in_between(10**16, 17.0) == pytest.approx(10**2, rel=0.02)


def in_between(rounds, control):
    lam = rounds ** (1 / 6) / 8
    return theory.violation(rounds, 0.0, multipliers=lam, duality_gap=1 / (2 + 4 * lam), **arguments(control))


def test_the_table_of_the_example():
    """Prints what docs/theory/slater.md shows, and compares."""
    lines = []
    for rounds in HORIZONS:
        violation, _, control = exact_run(rounds)
        common = arguments(control)
        bounds = (
            theory.violation(rounds, 0.0, multipliers=0.0, as_printed=True, **common),
            in_between(rounds, control),
            theory.violation_without_slater(rounds, 0.0, **common),
        )
        lines.append(f"| {rounds:,} | " + " | ".join(f"{value:,.0f}" for value in (violation, *bounds)) + " |")
    print("\n" + "\n".join(lines))
    assert "\n".join(lines) in (ROOT / "docs" / "theory" / "slater.md").read_text()


@pytest.mark.parametrize(("power", "exponent"), [(1, 2 / 3), (2, 5 / 7), (4, 11 / 15)])
def test_flatter_constraints_come_close_to_the_power_three_quarters(power, exponent):
    """At the saddle point of PR + λθ^(2k) − δηλ²/2: Σg = Tθ^(2k) grows like T^((3k−1)/(4k−1))."""
    sums = []
    for rounds in (1e16, 1e18):
        eta, delta = rounds**-0.5, 16.0 * power**2

        def slope(theta, scale=eta * delta):  # λ = g/(δη)
            return theta - 1 + 2 * power * theta ** (4 * power - 1) / scale

        sums.append(rounds * brentq(slope, 0.0, 1.0, xtol=1e-15) ** (2 * power))
    assert math.log(sums[1] / sums[0]) / math.log(100) == pytest.approx(exponent, abs=0.01)


def test_the_bound_without_multipliers_grows_like_the_power_three_quarters():
    at = [theory.violation_without_slater(rounds, 0.0, **arguments(17.0)) for rounds in (10**8, 10**9)]
    assert at[1] / at[0] == pytest.approx(10**0.75, rel=1e-3)


@pytest.fixture(scope="module")
def constants():
    return theory.constants(*without_multipliers())


@pytest.mark.slow
def test_constants_find_that_slaters_condition_fails(constants):
    assert constants.assumption("Slater").holds is False
    assert constants.assumption("Slater") in constants.needed
    assert math.isinf(constants.multipliers)
    with pytest.raises(ValueError, match=r"Slater fails: .* `slater=False`"):
        constants.theorem(1_000_000)
    violation, regret, control = exact_run(1_000_000)
    bounds = constants.theorem(1_000_000, slater=False)
    assert bounds.proved
    assert bounds.control == pytest.approx(control)
    assert bounds.violation == pytest.approx(
        theory.violation_without_slater(1_000_000, 0.0, **arguments(control)), rel=1e-9
    )
    assert violation <= bounds.violation
    assert regret <= bounds.regret


def test_the_report_falls_back_to_the_bounds_that_hold(monkeypatch, constants):
    monkeypatch.setattr(theory, "constants", lambda *_: constants)
    result = report(*without_multipliers(), 1_000)
    assert result.slater is False
    assert result.bounds == constants.theorem(1_000, slater=False)


def linear(rows, bound, decisions):
    return pf.Problem(
        lambda theta, z: jnp.sum((theta - z) ** 2), decisions, [pf.constraints.Linear(rows, bound)], dimension=2
    )


@pytest.mark.parametrize(
    ("problem", "holds"),
    [
        (linear([[1.0, 1.0]], 0.5, pf.Ball(1.0)), True),
        (linear([[1.0, 1.0], [-1.0, -1.0]], [0.5, -0.5], pf.Box([0.0, 0.0], [1.0, 1.0])), True),  # an equality
        (linear([[1.0, 1.0], [-1.0, -1.0]], [0.5, -0.5], pf.Ball(1.0)), None),
        (
            pf.Problem(
                lambda theta, z: jnp.sum((theta - z) ** 2),
                pf.Ball(1.0),
                [pf.constraints.Function(lambda theta: jnp.sum(theta**2))],
                dimension=2,
            ),
            None,
        ),
        (pf.Problem(lambda theta, z: jnp.sum((theta - z) ** 2), pf.Ball(1.0), dimension=2), True),
    ],
)
def test_slaters_condition_holds_fails_or_is_undecided(problem, holds):
    """Affine constraints on a polyhedron need no slack; on a ball they may; what is not declared convex cannot fail."""
    found = slater(problem, 1.0)
    assert found.holds is holds
    assert found.evidence


def test_the_duality_gap_of_wrong_multipliers_is_seen():
    """½(θ − 1)² under θ ≤ 0 has λ* = 1 and q(λ) = λ − ½λ²: the bound on the gap of another λ is no smaller than (λ − 1)²/2."""
    problem = pf.Problem(
        lambda theta, z: 0.5 * jnp.sum((theta - 1.0) ** 2),
        pf.Ball(2.0),
        [pf.constraints.Linear([1.0], 0.0)],
        dimension=1,
    )
    with precise():
        landscape = Landscape(problem, pf.LocationFamily(pf.Gaussian(0.0, 0.0), [[0.0]]), 1, seed=0)
        optimum = pf.performative_optimum(problem, landscape.environment)
        found = slater(problem, 1.0)
        norm, gap, evidence = multipliers(landscape, optimum, found, True)
        assert norm == pytest.approx(1.0, rel=1e-6)
        assert gap <= 1e-6
        assert evidence.startswith("proved")
        assert multipliers(landscape, optimum, found, convex=False)[2].startswith("estimated")
        for lam in (0.5, 1.5):
            wrong = changed(optimum, multipliers=np.array([lam]), decision=np.array([1 - lam]))
            assert multipliers(landscape, wrong, found, True)[1] >= (lam - 1) ** 2 / 2
        assert math.isinf(multipliers(landscape, optimum, Slater(False, np.zeros(1), 0.0, ""), True)[0])
