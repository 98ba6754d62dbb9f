"""Two studies as an earlier version wrote them: `PYTHONPATH=<checkout of it>/src python tests/helpers/earlier_store.py FILE`."""

import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import performative as pf

SAFE = """
name = "safe"
seed = 3

[decisions]
type = "box"
lower = [0.0, 0.0]
upper = [4.0, 4.0]

[[constraints]]
type = "linear"
coefficients = [1.0, 1.0]
bound = 4.0
name = "cap"

[loss]
type = "revenue"

[method]
type = "safe_apda"
samples = 2
"""


def exact():
    """A method whose numbers are all multiples of a power of two, so that no machine rounds them."""
    problem = pf.Problem(
        lambda theta, z: jnp.sum((theta - z) ** 2),
        pf.Box([0.0, 0.0], [5.0, 5.0]),
        [pf.constraints.Linear([1.0, 1.0], 4.0, name="cap")],
    )
    return pf.repeated_gradient(problem, step=0.25, control=0.5)


def answer(deployment):
    """Quarters that depend on the round alone."""
    random = np.random.default_rng(deployment.round)
    return random.integers(0, 20, size=(len(deployment.decisions), deployment.samples, 2)) / 4.0


def play(study):
    """Two tells, a cancel, a note, a tell, and a deployment that stays open."""
    for _ in range(2):
        study.tell(study.ask(), answer(study.ask()))
    study.cancel(study.ask(), "a holiday")
    study.note("open again on Monday")
    study.tell(study.ask(), answer(study.ask()))
    study.ask()


if __name__ == "__main__":
    path = Path(sys.argv[1])
    with pf.Study.create(path, "exact", exact(), seed=1) as study:
        play(study)
    spec = path.with_suffix(".toml")
    spec.write_text(SAFE)
    with pf.Study.from_spec(path, spec) as study:
        play(study)
    spec.unlink()
