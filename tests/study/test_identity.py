"""A study opens only with the problem and the method it was created with."""

import jax.numpy as jnp
import numpy as np
import pytest
from market import PROBLEM, market_problem, revenue, run

import performative as pf
from performative.study import OtherMethod


def other_loss(prices, demand):
    return -jnp.sum(prices * demand) + 1e-6 * prices[0]


def same_revenue(p, q):
    total = 0.0
    for place in range(2):
        total = total - q[place] * p[place]
    return total


DIFFERENT = {
    "bound": (lambda: pf.apda(market_problem(bound=3.0), warmup=20), "problem.constraints[0].bound: stored [4.0], but got [3.0]"),
    "set": (
        lambda: pf.apda(market_problem(upper=4.0), warmup=20),
        "problem.decisions.upper: stored [5.0, 5.0], but got [4.0, 5.0]",
    ),
    "loss": (lambda: pf.apda(market_problem(loss=other_loss), warmup=20), "loss(probes of 2 numbers)[0, 0]: stored"),
    "step": (lambda: pf.apda(PROBLEM, warmup=20, step=0.1), "method.step: stored 0.005, but got 0.1"),
    "step of t": (lambda: pf.apda(PROBLEM, warmup=20, step=lambda t: 0.1 / t), "method.step: stored 0.005, but got nothing"),
    "warmup": (lambda: pf.apda(PROBLEM, warmup=21), "method.estimator.warmup: stored 20, but got 21"),
    "start": (lambda: pf.apda(PROBLEM, warmup=20, start=[0.1, 0.0]), "method.start: stored None, but got [0.1, 0.0]"),
    "kind": (lambda: pf.pd_ps(PROBLEM, warmup=20), "method.estimator.anticipate: stored True, but got False"),
    "safe": (lambda: pf.safe_apda(PROBLEM), "method: stored 'PrimalDual', but got 'SafePrimalDual'"),
}  # fmt: skip


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    path = tmp_path_factory.mktemp("identity") / "prices.db"
    with (
        pf.Study.create(path, "fresh", pf.apda(PROBLEM, warmup=20)),
        pf.Study.create(path, "told", pf.apda(PROBLEM, warmup=20)) as told,
    ):
        run(told, 2)
    return path


@pytest.mark.parametrize("name", DIFFERENT)
@pytest.mark.parametrize("which", ["fresh", "told"])
def test_another_method_is_refused_with_the_differences(opened, name, which):
    make, line = DIFFERENT[name]
    before = opened.read_bytes()
    with pytest.raises(OtherMethod) as raised:
        pf.Study.open(opened, which, make())
    assert line in str(raised.value)
    assert any(line in entry for entry in raised.value.differences)
    assert opened.read_bytes() == before


def test_code_may_be_written_anew(opened):
    method = pf.apda(market_problem(loss=same_revenue), warmup=20)
    with pf.Study.open(opened, "told", method) as study:
        assert study.state.round == 2


def test_a_loss_that_only_the_data_show_is_compared_once_they_were_told(path):
    def make(weight):
        loss = lambda t, z: jnp.sum(t**2) + weight * z[:80].reshape(8, 10).sum()  # noqa: E731
        return pf.repeated_gradient(pf.Problem(loss, pf.Box([0.0], [1.0])))

    with pf.Study.create(path, "wide", make(1.0)) as study:
        study.tell(study.ask(), np.ones((1, 1, 80)))
    with pytest.raises(OtherMethod, match="loss"):
        pf.Study.open(path, "wide", make(2.0))
    pf.Study.open(path, "wide", make(1.0)).close()


def test_another_loss_is_refused_wherever_decisions_and_data_are(path):
    """Far from 0, where a set is a corner to points around 0; and bounds of very different size."""
    problem = pf.Problem(lambda theta, z: jnp.sum((theta - z) ** 2), pf.Box([10.0, 10.0], [20.0, 20.0]))
    other = pf.Problem(
        lambda theta, z: jnp.sum((theta - z) ** 2) + 100.0 * jnp.sum((theta - 10.0) ** 2), problem.decisions
    )
    late = pf.Problem(lambda theta, z: jnp.sum((theta - z) ** 2 + jnp.maximum(z - 90.0, 0.0)), problem.decisions)
    with pf.Study.create(path, "eu", pf.repeated_gradient(problem)) as study:
        study.tell(study.ask(), np.full((1, 1, 2), 100.0))
    for wrong in (other, late):
        with pytest.raises(OtherMethod, match="loss"):
            pf.Study.open(path, "eu", pf.repeated_gradient(wrong))
    wide = [pf.Problem(revenue, pf.Box([0.0, 0.0], [1e9, upper])) for upper in (1.0, 1.9)]
    pf.Study.create(path, "wide", pf.repeated_gradient(wide[0])).close()
    with pytest.raises(OtherMethod, match="upper"):
        pf.Study.open(path, "wide", pf.repeated_gradient(wide[1]))


@pytest.mark.parametrize("make", [pf.safe_apda, pf.apda])
def test_another_shift_of_a_structured_effect_is_refused(path, make):
    def method(scale):
        return make(PROBLEM, shift=lambda effect, theta: scale * effect * theta, effect=-np.ones(2))

    pf.Study.create(path, "eu", method(1.0)).close()
    pf.Study.open(path, "eu", method(1.0)).close()
    with pytest.raises(OtherMethod, match=r"shift\(probes\): stored"):
        pf.Study.open(path, "eu", method(2.0))
