"""Why a careful decision-maker deploys what it deploys, in words and numbers."""

import jax
import numpy as np
import pytest

import performative as pf
from performative.losses import Revenue
from performative.numerics.precision import precise

PROBLEM = pf.Problem(
    Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0]), [pf.constraints.Linear([1.0, 1.0], bound=4.0, name="cap")]
)
EFFECT = np.array([[-1.5, 0.3], [0.2, -1.0]])


def played(rounds, **options):
    method = pf.safe_apda(PROBLEM, start=[1.0, 1.0], samples=50, **options)
    random = np.random.default_rng(0)
    with precise():
        state = method.init(jax.random.key(0))
        for _ in range(rounds):
            x = np.asarray(method.ask(state, jax.random.key(1)))
            z = np.array([4.0, 5.0]) + (x @ EFFECT.T)[:, None] + 0.5 * random.normal(size=(1, 50, 2))
            state = method.tell(state, x, z)
        return method, state, np.asarray(method.ask(state, jax.random.key(1)))


def test_the_first_round_says_that_nothing_is_known():
    method, state, _ = played(0)
    assert method.why(state).sentences == ("starts: the first decision is always the start",)
    assert method.why(state).numbers == {"action": "start"}


def test_probes_are_named_by_coordinate_with_their_price_and_worth():
    method, state, asked = played(1)
    why = method.why(state)
    assert why.numbers["action"] == "explore"
    np.testing.assert_allclose(why.numbers["moves"], asked - np.asarray(state.decision))
    assert f"coordinate 0 moves by {why.numbers['moves'][0][0]:+.4g}" in why.sentences[0]
    assert why.numbers["worth"] > why.numbers["price"]
    assert f"worth about {why.numbers['worth']:.3g}" in why.sentences[2]


def test_a_decision_at_the_cap_names_it_and_the_gain():
    method, state, _ = played(40)
    why = method.why(state)
    assert "constraint cap" in why.numbers["limits"]
    assert [line for line in why.sentences if line.startswith("held by constraint cap")]
    assert abs(why.numbers["gain"] - 3.3) < 1.0  # from 8.0 at the start to 10.6 at the best, or a little less
    assert f"a gain of {why.numbers['gain']:.4g} over the start" in why.sentences[1]
    budget = why.budget
    assert budget["allowed"] == pytest.approx(float(state.ledger.unit) * np.sqrt(39 / 30), rel=0.02)
    assert budget["left"] == pytest.approx(budget["allowed"] - budget["spent"])


def test_a_limit_on_moves_is_named():
    method, state, asked = played(3, max_move=0.001, loss_budget=None)
    why = method.why(state)
    assert np.max(np.abs(asked - np.asarray(state.deployed))) <= 0.001 + 1e-12
    assert "max_move" in why.numbers["limits"]
    assert why.max_move == (0.001, 0.001)
    assert why.budget is None
