"""Step sizes: those of the paper's experiments and those of its theorem."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial

from performative.explanations import explained
from performative.numerics.precision import in_float64
from performative.numerics.pytrees import callable_node
from performative.validation import finite_array, positive, whole

Step = float | Callable[[Array], Array]


class Settings(TypedDict):
    """The steps that `apda` and `pd_ps` take, by name.

    >>> import performative as pf
    >>> settings: pf.steps.Settings = pf.steps.experiment()
    >>> settings["step"]
    0.005
    """

    step: float
    control: float
    estimation_step: Callable[[Array], Array]


def harmonic(offset: float = 10.0) -> Callable[[Array], Array]:
    """ζ_t = 1/(t + offset), the estimation step of the paper's experiments.

    >>> import performative as pf
    >>> pf.steps.harmonic(10.0)(10)
    np.float64(0.05)
    """
    return Partial(_harmonic, np.float64(positive("offset", offset)))


def excited(dimension: int, scale: float = 1.0) -> Callable[[Array], Array]:
    """ζ_t = 2/(κ₁t + 2κ₃), the theorem's estimation step, for probes u ∼ N(0, scale²·I): κ₁ = scale², κ₃ = (d+2)·scale².

    The paper prints κ₃ = 3d, which is a valid but looser bound.

    >>> import performative as pf
    >>> pf.steps.excited(dimension=2)(8)
    np.float64(0.125)
    """
    kappa1 = positive("scale", scale) ** 2
    return Partial(_excited, np.float64(kappa1), np.float64(kappa1 * (whole("dimension", dimension, 1) + 2)))


def experiment() -> Settings:
    """η = 5·10⁻³, δ = 1, ζ_t = 1/(t+10): the settings of both experiments of the paper (outside its theorem).

    >>> import performative as pf
    >>> sorted(pf.steps.experiment())
    ['control', 'estimation_step', 'step']
    """
    return {"step": 5e-3, "control": 1.0, "estimation_step": harmonic(10.0)}


def theorem(horizon: int, lipschitz: float, dimension: int) -> Settings:
    """η = 1/√T, δ at the lower end of the theorem's interval, ζ_t = 2/(κ₁t + 2κ₃), for T = `horizon` and L_g = `lipschitz`.

    >>> import performative as pf
    >>> settings = pf.steps.theorem(horizon=10_000, lipschitz=1.0, dimension=2)
    >>> settings["step"], round(settings["control"], 4)
    (0.01, 4.0032)
    """
    eta = float(1 / np.sqrt(whole("horizon", horizon, 1)))
    if horizon < least_horizon(lipschitz):
        raise ValueError(
            f"`horizon >= 32 lipschitz²` must hold, but got {horizon=} < {32 * float(lipschitz) ** 2:.6g} with {lipschitz=}"
        )
    lowest, _ = control_interval(eta, lipschitz)
    return {"step": eta, "control": lowest or 0.5, "estimation_step": excited(dimension)}


def control_interval(step: float, lipschitz: float) -> tuple[float, float]:
    """The interval of δ that Lemma 3 allows for η = `step` and L_g = `lipschitz`: 2δ²η² − δ + 4L_g² ≤ 0.

    Assumes that g is convex and L_g-Lipschitz on Θ. The interval is empty where 32 η² L_g² > 1.

    >>> import performative as pf
    >>> low, high = pf.steps.control_interval(step=0.01, lipschitz=1.0)
    >>> round(low, 4), round(high, 1)
    (4.0032, 4996.0)
    """
    eta, slope = positive("step", step), float(finite_array("lipschitz", lipschitz, 0))
    inside = 1 - 32 * eta**2 * slope**2
    if inside < -1e-9:
        raise ValueError(
            f"`32 step² lipschitz² <= 1` must hold (T >= 32 lipschitz² with step = 1/√T), but got {step=}, {lipschitz=}: "
            f"T = {1 / eta**2:.6g} < {32 * slope**2:.6g}"
        )
    root = float(np.sqrt(max(inside, 0.0)))
    return 8 * slope**2 / (1 + root), (1 + root) / (4 * eta**2)


def least_horizon(lipschitz: float) -> int:
    """The smallest T for which Lemma 3 and Theorem 1 hold: T ≥ 32 L_g², so that with η = 1/√T an interval for δ exists.

    >>> import performative as pf
    >>> pf.steps.least_horizon(lipschitz=2.0)
    128
    """
    return max(1, int(np.ceil(32 * float(finite_array("lipschitz", lipschitz, 0)) ** 2 * (1 - 1e-9))))


@in_float64
def validated(name: str, step: Step) -> Step:
    """The step, refused unless it is a positive number or a function of the round that returns one.

    >>> import performative as pf
    >>> pf.steps.validated("step", 0.5)
    np.float64(0.5)
    """
    if not callable(step):
        return np.float64(positive(name, step))
    try:
        jax.eval_shape(step, jnp.asarray(1))
    except (jax.errors.JAXTypeError, TypeError) as error:
        raise TypeError(
            f"`{name}` must be a function of the round written in jax.numpy, without branches, but failed{explained(error)}"
        ) from error
    for t in (1, 2, 3, 10, 100, 1000, 10**6):
        value = np.asarray(step(jnp.asarray(t)))
        if value.shape != () or not np.isfinite(value) or not value > 0:
            raise ValueError(f"`{name}(t)` must be a positive number for every round t, but at t={t} it is {value}")
    return callable_node(step)


def at(step: Step, t: Array) -> Array | float:
    """The step of round t.

    >>> import performative as pf
    >>> pf.steps.at(0.5, 10), pf.steps.at(pf.steps.harmonic(10.0), 10)
    (0.5, np.float64(0.05))
    """
    return step(t) if callable(step) else step


def _harmonic(offset: Array, t: Array) -> Array:
    return 1.0 / (t + offset)


def _excited(kappa1: Array, kappa3: Array, t: Array) -> Array:
    return 2.0 / (kappa1 * t + 2.0 * kappa3)
