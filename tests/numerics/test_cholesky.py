import jax
import jax.numpy as jnp
import numpy as np
import pytest

import performative as pf
from performative.losses import Revenue
from performative.methods import safe_primal_dual
from performative.numerics import cholesky
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key


@pytest.mark.parametrize("invert", [cholesky.inverse, cholesky.eliminated])
@pytest.mark.parametrize("n", [1, 3, 12])
def test_inverses(invert, n):
    factors = np.random.default_rng(n).normal(size=(4, n, n))
    matrices = factors @ np.swapaxes(factors, 1, 2) + 0.1 * np.eye(n)
    with precise():
        np.testing.assert_allclose(matrices @ np.asarray(invert(matrices)), np.tile(np.eye(n), (4, 1, 1)), atol=1e-9)


@pytest.mark.parametrize("n", [1, 3, 12])
def test_roots_and_their_inverses(n):
    factors = np.random.default_rng(n).normal(size=(4, n, n))
    matrices = factors @ np.swapaxes(factors, 1, 2) + 0.1 * np.eye(n)
    with precise():
        roots = cholesky.root(jnp.asarray(matrices))
        inverses = np.asarray(cholesky.eliminated(roots))
    np.testing.assert_allclose(np.asarray(roots), np.linalg.cholesky(matrices), atol=1e-9)
    np.testing.assert_allclose(inverses @ np.asarray(roots), np.tile(np.eye(n), (4, 1, 1)), atol=1e-9)


def test_no_two_calls_of_lapack_can_run_at_the_same_time():
    """Batched ones would wait for each other forever on two cores: of each routine, a plan has one call."""
    method = pf.safe_apda(pf.Problem(Revenue(), pf.Box(np.zeros(3), np.ones(3))), start=np.full(3, 0.5), samples=2)
    with precise():
        state = method.init(new_key(0))
        told = safe_primal_dual._learned(method, state, method.ask(state, new_key(1)), jnp.ones((1, 2, 3)))
        text = jax.jit(safe_primal_dual.SafePrimalDual.plan).lower(method, told).as_text()
    assert {name: text.count(f"@lapack_{name}_ffi") for name in ("dpotrf", "dtrsm", "dsyevd", "dgetrf")} == {
        "dpotrf": 1,
        "dtrsm": 1,
        "dsyevd": 1,
        "dgetrf": 0,
    }
