"""κ₁, κ₂, κ₃ of the injected noise."""

from __future__ import annotations

import numpy as np
import pytest

from performative import theory


@pytest.mark.parametrize("name", ["gaussian", "rademacher", "sphere"])
def test_noise_constants_in_closed_form_agree_with_draws(name):
    def draw(random, n):
        u = random.normal(size=(n, 3))
        return {"gaussian": u, "rademacher": np.sign(u), "sphere": u / np.linalg.norm(u, axis=1, keepdims=True)}[name]

    exact = theory.noise_constants(name, 3, scale=2.0)
    estimated = theory.noise_constants(draw, 3, scale=2.0)
    for value, estimate, error in zip(exact[:3], estimated[:3], estimated.errors, strict=True):
        assert abs(value - estimate) <= 5 * error + 0.02 * value  # eigenvalues of a sample are biased outwards
    assert exact.errors == (0.0, 0.0, 0.0)
    assert all(error >= 0 for error in estimated.errors)


def test_printed_kappa3_is_valid_but_looser():
    assert theory.noise_constants("gaussian", 10).kappa3 == 12
    assert theory.noise_constants("gaussian", 10, as_printed=True).kappa3 == 30
