"""Constrained Bayesian optimization by BoTorch: a Gaussian process on the mean loss of each deployment, expected improvement.

It is told the constraints, as all methods are, and learns from losses alone: no gradient, no model of the data. It asks and tells
on the host, one realization after the other. `pip install performative[botorch]` installs what it needs.
"""

import importlib.util
import warnings

import jax
import jax.numpy as jnp
import numpy as np

from performative.numerics.precision import in_float64
from performative.numerics.randomness import new_key
from performative.simulation.engine import round_keys

CANDIDATES = 1_000
"""Random decisions of the feasible set, and as many around the best one, among which the next is chosen."""
REFIT = 5
"""Hyperparameters are fitted after every deployment of the first 30, and after every fifth later on."""


def installed():
    """Whether BoTorch can be imported."""
    return importlib.util.find_spec("botorch") is not None


@in_float64
def deployed(case, start, deployments, samples, realization, seed=0):
    """The decisions (T, d) that it deploys: the start, 2(d + 1) random ones, then those of the largest expected improvement.

    The world answers round t with the noise that it has for all other methods of the comparison.
    """
    import torch

    torch.manual_seed(seed + realization)
    torch.set_num_threads(1)
    random = np.random.default_rng([seed, realization])
    problem, key = case.problem, jax.random.fold_in(new_key(seed), realization)
    losses = jax.jit(lambda theta, z: jax.vmap(lambda z: problem.loss(theta, z))(z))
    draw = jax.jit(lambda key, theta: case.environment.sample(key, theta, samples))
    feasible = _Feasible(problem)
    points, means, variances, fitted = [], [], [], None
    for t in range(deployments):
        if t == 0:
            point = np.asarray(start)
        elif t <= 2 * (problem.d + 1):
            point = feasible.anywhere(random, 1)[0]
        else:
            model, fitted = _model(points, means, variances, fitted if t > 30 and t % REFIT else None)
            point = _next(model, points, feasible, random)
        z = draw(round_keys(key, t, answers=1)[1], jnp.asarray(point))
        seen = np.asarray(losses(jnp.asarray(point), z))
        points.append(point)
        means.append(seen.mean())
        variances.append(max(seen.var(ddof=1) / samples, 1e-12))
    return np.asarray(points)


class _Feasible:
    """Random decisions that lie in Θ and meet the constraints."""

    def __init__(self, problem):
        far = 1e3 * (float(problem.decisions.radius) + 1.0) * np.eye(problem.d)
        project = jax.jit(jax.vmap(problem.decisions.project))
        self.lower, self.upper = (np.diagonal(np.asarray(project(sign * far))) for sign in (-1.0, 1.0))
        self._keep = jax.jit(
            jax.vmap(lambda x: (problem.decisions.project(x), jnp.max(problem.g(x), initial=-jnp.inf)))
        )

    def among(self, points):
        """Those of the points, moved into Θ, that meet the constraints."""
        inside, worst = self._keep(jnp.asarray(points))
        return np.asarray(inside)[np.asarray(worst) <= 0.0]

    def anywhere(self, random, count):
        """At least `count` of them, uniform in a box around Θ before they are moved into it."""
        found = np.zeros((0, len(self.lower)))
        while len(found) < count:
            found = np.concatenate(
                [found, self.among(random.uniform(self.lower, self.upper, (CANDIDATES, len(self.lower))))]
            )
        return found


def _model(points, means, variances, fitted):
    """The Gaussian process on minus the mean losses, with the noise they were seen to have."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize, Standardize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    x = torch.tensor(np.asarray(points), dtype=torch.float64)
    y, noise = (torch.tensor(np.asarray(part), dtype=torch.float64)[:, None] for part in (means, variances))
    model = SingleTaskGP(x, -y, noise, input_transform=Normalize(x.shape[1]), outcome_transform=Standardize(1))
    if fitted is None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a fit that stops early
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        fitted = {name: value.clone() for name, value in model.covar_module.state_dict().items()}
    else:
        model.covar_module.load_state_dict(fitted)
    return model.eval(), fitted


def _next(model, points, feasible, random):
    """The candidate with the largest expected improvement over the best mean that the model has for a deployed decision."""
    import torch
    from botorch.acquisition import LogExpectedImprovement

    with torch.no_grad():
        known = torch.tensor(np.asarray(points), dtype=torch.float64)
        means = model.posterior(known).mean[:, 0]
        best = points[int(means.argmax())]
        sizes = (feasible.upper - feasible.lower) * 10.0 ** random.uniform(-3.0, -0.5, (CANDIDATES, 1))
        near = feasible.among(best + sizes * random.normal(size=(CANDIDATES, len(best))))
        candidates = np.concatenate([feasible.anywhere(random, CANDIDATES)[:CANDIDATES], near])
        values = LogExpectedImprovement(model, means.max())(torch.tensor(candidates, dtype=torch.float64)[:, None])
    return candidates[int(values.argmax())]
