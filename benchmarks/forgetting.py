"""`python -m benchmarks.forgetting`: how large standard errors are where old data fade, against how far estimates really are off.

`pf.safe_apda` sets two prices in a market that stays as it is, so that a truth is there to compare with: the effect, the risk at
θ_t, and its gain over the start. `own` are the standard errors of its regression, and `status` the intervals of a study with the
same log. "width" is the reported standard error, or 1/1.96 of half an interval, over the root mean square of how far the
estimates are off: 1 is right. "holds" is how often intervals of 95 % hold the truth.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import performative as pf
from performative.estimators.standard_errors import confidence
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key
from performative.study import belief

EFFECT, MEAN, NOISE = np.array([[-1.0, 0.2], [0.1, -0.8]]), np.array([3.0, 2.0]), 0.2
CLAIMS = ("effect", "risk now", "gain over the start")


def revenue(prices: Any, demand: Any) -> Any:
    return -jnp.sum(prices * demand)


def risk(prices: Any) -> float:
    """The true one."""
    return -float(prices @ (MEAN + EFFECT @ prices))


def played(method: Any, rounds: int, runs: int) -> tuple[Any, Any, Any]:
    """The last states, and all decisions (runs, rounds, d) and samples (runs, rounds, n, k)."""

    def run(key: Any) -> Any:
        def round_(state: Any, t: Any) -> Any:
            decision = method.ask(state, key)[0]
            noise = NOISE * jax.random.normal(jax.random.fold_in(key, t), (method.samples, 2))
            samples = MEAN + EFFECT @ decision + noise
            return method.tell(state, decision[None], samples[None]), (decision, samples)

        state, first = round_(method.init(key), 0)
        last, later = jax.lax.scan(round_, state, jnp.arange(1, rounds))
        return last, *(jnp.concatenate([one[None], more]) for one, more in zip(first, later, strict=True))

    with precise():
        keys = jax.vmap(functools.partial(jax.random.fold_in, new_key(0)))(jnp.arange(runs))
        return jax.jit(jax.vmap(run))(keys)


def claims(method: Any, rounds: int, runs: int) -> Iterator[tuple[str, str, Any, Any]]:
    """Who claims what, by how much the estimate is off, and its standard error."""
    states, decisions, samples = played(method, rounds, runs)
    start = np.asarray(method.start)
    for run in range(runs):
        state = jax.tree.map(lambda leaf, run=run: leaf[run], states)
        decision = np.asarray(state.decision)
        true = risk(decision)
        known = confidence(method.learner, method.prediction, state.belief, state.decision, start, draws=500)
        yield "own", CLAIMS[0], known.effect - EFFECT, known.effect_error
        yield "own", CLAIMS[1], known.risk - true, known.risk_error
        if not np.array_equal(decision, start):
            yield "own", CLAIMS[2], known.gain - (risk(start) - true), known.gain_error
        recent = belief.Recent()
        for number, (x, z) in enumerate(zip(np.asarray(decisions[run]), np.asarray(samples[run]), strict=True), 1):
            recent.add(number, x[None], z[None])
        world = belief.believed(method, state, recent)
        assert world is not None
        estimate, error = belief.effect(world)
        yield "status", CLAIMS[0], estimate - EFFECT, error
        intervals = belief.predicted(world, decision), belief.gain(world, decision, start)
        for claim, one, truth in zip(CLAIMS[1:], intervals, (true, risk(start) - true), strict=True):
            if one.low is not None and one.high is not None and one.high > one.low:
                yield "status", claim, (one.low + one.high) / 2 - truth, (one.high - one.low) / 2 / 1.96


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forgetting", description=__doc__)
    parser.add_argument("--kept", nargs="+", type=float, default=[0.99, 0.95, 0.9])
    parser.add_argument("--samples", nargs="+", type=int, default=[1, 20])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--runs", type=int, default=400)
    asked = parser.parse_args()
    problem = pf.Problem(
        revenue, pf.Box([0.0, 0.0], [3.0, 3.0]), [pf.constraints.Linear([1.0, 1.0], bound=3.0, name="cap")]
    )
    print("| forgetting | samples | whose | claim | width | holds |\n|---|---|---|---|---|---|")
    for kept in asked.kept:
        for samples in asked.samples:
            method = pf.safe_apda(problem, start=[1.0, 1.0], samples=samples, forgetting=kept, exploration=2.0)
            made = [*claims(method, asked.rounds, asked.runs)]
            for whose in ("own", "status"):
                for claim in CLAIMS:
                    off, error = (
                        np.array([np.ravel(one[place]) for one in made if one[:2] == (whose, claim)])
                        for place in (2, 3)
                    )
                    width = np.sqrt(np.mean(error**2) / np.mean(off**2))
                    holds = np.mean(np.abs(off) <= 1.96 * error)
                    print(f"| {kept:g} | {samples} | {whose} | {claim} | {width:.2f} | {holds:.0%} |", flush=True)


if __name__ == "__main__":
    main()
