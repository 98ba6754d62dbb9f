"""Bounds refuse numbers that cannot be constants."""

from __future__ import annotations

import pytest

from performative import theory


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: theory.parameter_error(10, -1.0, theory.noise_constants("gaussian", 2), 1.0),
            "`initial_error` must be",
        ),
        (lambda: theory.risk_convexity(1.0, 1.0, 0.1, 0.5, 0.7), "`least_response <= sensitivity` must hold"),
        (lambda: theory.noise_constants("cauchy", 2), "`noise` must be 'gaussian'"),
        (
            lambda: theory.gradient_error(
                10,
                5,
                variance=1,
                smoothness=1,
                data_smoothness=1,
                data_lipschitz=1,
                sensitivity=1,
                radius=1,
                parameter_error=1,
            ),
            "`parameter_error_fourth` must be given",
        ),
        (
            lambda: theory.regret(
                100, -1.0, convexity=1, radius=1, constraint_bound=1, constraint_lipschitz=1, lipschitz=1, control=5
            ),
            "`gradient_error` must be a number >= 0",
        ),
        (
            lambda: theory.regret(
                100,
                1.0,
                convexity=1,
                radius=1,
                constraint_bound=1,
                constraint_lipschitz=1,
                lipschitz=1,
                control=4,
            ),
            "must lie in the interval",
        ),
    ],
)
def test_bounds_refuse_what_is_no_constant(call, message):
    with pytest.raises(ValueError, match=message):
        call()
