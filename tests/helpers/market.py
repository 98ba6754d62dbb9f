"""Prices of two products under a cap, as a live study meets them; and a look at what a study's file holds."""

import sqlite3

import jax.numpy as jnp
import numpy as np

import performative as pf
from performative.study.encoding import decoded

EFFECT = np.array([[-1.5, 0.3], [0.2, -1.0]])


def revenue(prices, demand):
    return -jnp.sum(prices * demand)


def market_problem(bound=4.0, loss=revenue, upper=5.0):
    return pf.Problem(loss, pf.Box([0.0, 0.0], [upper, 5.0]), [pf.constraints.Linear([1.0, 1.0], bound, name="cap")])


PROBLEM = market_problem()
MARKET = pf.LocationFamily(pf.Gaussian([4.0, 5.0], 0.25 * np.eye(2)), EFFECT)


def answer(deployment, n=None):
    """What the world says, a function of the deployment's round alone."""
    random = np.random.default_rng(deployment.round)
    noise = random.normal(size=(len(deployment.decisions), n or deployment.samples, 2))
    return np.array([4.0, 5.0]) + (deployment.decisions @ EFFECT.T)[:, None] + 0.5 * noise


def run(study, rounds):
    """Ask and tell until `rounds` is the open round."""
    while True:
        deployment = study.ask()
        if deployment.round >= rounds:
            return study
        study.tell(deployment, answer(deployment))


def stored(path):
    """Everything the file holds, by a connection of its own."""
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        rows = [connection.execute(f"SELECT * FROM {table}").fetchall() for table in ("events", "heads", "snapshots")]
    connection.close()
    return rows


def kinds(path):
    """The kinds of the events in a file."""
    return [decoded(number, record[64:]).kind for number, (_, record) in enumerate(stored(path)[0])]
