"""Shifts that a regression cannot learn are refused."""

import numpy as np
import pytest
from playing import small

import performative as pf
from performative.shifts import apply_effect, overlap, shift_tensor, unmoved


def test_numbers_of_an_effect_that_do_the_same_are_refused():
    with pytest.raises(ValueError, match="must let every entry of the effect be identified"):
        pf.safe_apda(small()[0], shift=lambda a, theta: (a[0] + a[1]) * theta, effect=np.zeros(2))


def test_a_shift_is_its_tensor():
    """Σ_pd tensor[k, p, d]·a_p·θ_d is the shift; where each number is one entry the overlap is the identity, and left out."""
    random = np.random.default_rng(0)
    effect, theta = random.normal(size=(3, 2)), random.normal(size=2)
    tensor = shift_tensor(apply_effect, effect, 2)
    np.testing.assert_allclose(np.einsum("kpd,p,d->k", tensor, effect.reshape(-1), theta), effect @ theta, rtol=1e-12)
    assert unmoved(tensor) == ()
    np.testing.assert_allclose(overlap(tensor), np.eye(effect.size))


def test_data_that_stay_and_numbers_that_overlap_are_found():
    tensor = np.zeros((2, 2, 1))
    tensor[1, :, 0] = [1.0, 0.0]
    tensor[0, 1, 0] = 2.0
    np.testing.assert_allclose(overlap(tensor), np.diag([1.0, 4.0]))
    assert unmoved(tensor[:, :1]) == (0,)
