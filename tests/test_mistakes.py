"""The likely mistakes of a new user: each is refused with the rule, the value and the remedy.

A row is the call, the kind of error, and words from its message: of the rule, of the value, of the remedy. Where the rule
tells what to do (`step > 0`), it is the remedy. Python's own errors about missing and unknown arguments are not listed.
"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import performative as pf
from performative import constraints
from performative.cli import app
from performative.study.spec import describe


def loss(theta, z):
    return 0.5 * jnp.sum((theta - z) ** 2)


NAN = float("nan")
KEY = jax.random.key(0)
BOX = pf.Box([0.0, 0.0], [1.0, 1.0])
PROBLEM = pf.Problem(loss, BOX, [constraints.Linear([1.0, 1.0], 1.5, name="cap")])
LINE = pf.Problem(loss, pf.Box([0.0], [5.0]))
BASE = pf.Gaussian([0.5, 0.5], [0.1, 0.1])
WORLD = pf.LocationFamily(BASE, 0.2 * np.eye(2))
METHOD = pf.apda(PROBLEM, warmup=2)
TOML = 'name = "s"\n[decisions]\ntype = "box"\nlower = [0.0, 0.0]\nupper = [1.0, 1.0]\n[loss]\ntype = "revenue"\n'
SHAPES = "`loss` must take a decision of shape (2,) and one sample of shape (2,), but failed"
ONE = "it is loss(theta, z) of one decision and one sample, and the library averages"


def risk(loss, world=WORLD):
    return pf.performative_risk(pf.Problem(loss, BOX), world, [0.0, 0.0])


def world(sample):
    return type("Mine", (), {"sample": sample})()


class Normal:
    def sample(self, key, theta, n):
        return jax.random.normal(key, (n, 2))


def simulate(methods, environment=WORLD, rounds=2, **options):
    return pf.simulate(methods, environment, rounds=rounds, **options)


def told(samples, decisions=((0.0, 0.0),)):
    return METHOD.tell(METHOD.init(KEY), decisions, samples)


def branching(theta, z):
    return theta[0] if theta[0] > z[0] else z[0]


MISTAKES = {
    # Problem
    "arguments in the wrong order": (lambda: pf.Problem(BOX, loss), TypeError, "`loss` must be a function of (theta, z)", "got Box(", "the order is Problem(loss, decisions"),
    "the value of the loss": (lambda: pf.Problem(loss(np.zeros(2), np.zeros(2)), BOX), TypeError, "`loss` must be a function", "got Array(0.", "give the function itself"),
    "the name of a loss": (lambda: pf.Problem("squared", BOX), TypeError, "`loss` must be a function", "'squared'", "give the function itself"),
    "bounds in place of a set": (lambda: pf.Problem(loss, ([0.0], [1.0])), TypeError, "`decisions` must be a decision set", "([0.0], [1.0])", "write performative.Box(lower, upper)"),
    "a set's class": (lambda: pf.Problem(loss, pf.Box), TypeError, "`decisions` must be a decision set", "class", "write performative.Box(lower, upper)"),
    "a number as constraint": (lambda: pf.Problem(loss, BOX, 4.0), TypeError, "`constraints` must be a function or a list", "4.0", "constraints.Linear(coefficients, bound)"),
    "a formula as text": (lambda: pf.Problem(loss, BOX, "theta <= 1"), TypeError, "`constraints` must be a function or a list", "'theta <= 1'", "lambda theta: g(theta)"),
    "a function in a list": (lambda: pf.Problem(loss, BOX, [lambda theta: theta[0]]), TypeError, "`constraints[0]` must be one of", "<lambda>", "constraints.Function(function)"),
    "coefficients and bound as a pair": (lambda: pf.Problem(loss, BOX, [([1.0, 1.0], 4.0)]), TypeError, "`constraints[0]` must be one of", "([1.0, 1.0], 4.0)", "constraints.Linear(coefficients, bound)"),
    "a comparison as constraint": (lambda: pf.Problem(loss, BOX, lambda theta: theta[0] <= 1.0), ValueError, "of real numbers", "returned bool", "return g of g(theta) <= 0"),
    "a list of values": (lambda: pf.Problem(loss, BOX, lambda theta: [theta[0], theta[1]]), ValueError, "must return a scalar or a vector (m,)", "returned list", "jnp.stack joins"),
    "a constraint on three numbers": (lambda: pf.Problem(loss, BOX, [constraints.Linear([1.0, 1.0, 1.0], 4.0)]), ValueError, "must have the same dimension", "{'decisions': 2, 'constraints[0]': 3}", "one number for each"),
    "another dimension": (lambda: pf.Problem(loss, BOX, dimension=3), ValueError, "must have the same dimension", "{'dimension': 3, 'decisions': 2}", "one number for each"),
    "a dimension that is a float": (lambda: pf.Problem(loss, pf.Ball(1.0), dimension=2.0), ValueError, "`dimension` must be a whole number", "2.0", "write 2"),
    "no dimension": (lambda: pf.performative_optimum(pf.Problem(loss, pf.Ball(1.0)), pf.Reaction(BASE, lambda theta, z: z)), ValueError, "dimension is unknown", "", "pass `dimension=d` to Problem"),
    "one name twice": (lambda: pf.Problem(loss, BOX, [constraints.Linear([1.0, 0.0], 1.0, name="a")] * 2), ValueError, "must have different names", "['a', 'a']", "choose others with `name=`"),
    # Losses
    "a loss of every entry": (lambda: risk(lambda theta, z: (theta - z) ** 2), ValueError, "must return a scalar", "shape (2,)", "add up with jnp.sum"),
    "a loss of the decision alone": (lambda: risk(lambda theta: theta[0]), ValueError, SHAPES, "takes 1 positional argument", ONE),
    "a loss that returns nothing": (lambda: risk(lambda theta, z: None), ValueError, "must return a scalar", "NoneType", "return the value"),
    "a loss that counts": (lambda: risk(lambda theta, z: jnp.sum(theta > z)), ValueError, "must return a real number", "int64", "multiply it by 1.0"),
    "a loss of a batch": (lambda: risk(lambda theta, z: jnp.mean(z[:, 0] - theta[0])), ValueError, SHAPES, "Too many indices", ONE),
    "a column by its name": (lambda: risk(lambda theta, z: z["price"] * theta[0]), ValueError, SHAPES, "'price'", ONE),
    "an if": (lambda: risk(branching), ValueError, SHAPES, "return theta[0] if theta[0] > z[0] else z[0]", "jnp.where(condition, a, b)"),
    "numpy in a loss": (lambda: risk(lambda theta, z: np.exp(theta[0])), ValueError, SHAPES, "test_mistakes.py:", "write jnp.exp for np.exp"),
    "float in a loss": (lambda: risk(lambda theta, z: float(theta[0])), ValueError, SHAPES, "test_mistakes.py:", "leave out float()"),
    "a loss without a gradient": (lambda: simulate({"a": pf.apda(pf.Problem(lambda theta, z: jnp.sign(theta[0] * z[0]), BOX), warmup=2)}, world(lambda self, key, theta, n: jnp.zeros((n, 2)))), ValueError, "`loss` must have a gradient", "is zero wherever it is defined", "use a smooth surrogate"),
    "a loss without a value": (lambda: pf.performative_optimum(pf.Problem(lambda theta, z: jnp.log(-1.0 - theta[0] ** 2) * z[0], BOX), WORLD), ValueError, "the average loss must be finite", "is nan at [0. 0.]", "jnp.log(jnp.maximum(x, 1e-9))"),
    # Sets and constraints
    "bounds in the wrong order": (lambda: pf.Box([1.0, 1.0], [0.0, 0.0]), ValueError, "`lower <= upper` must hold", "(lower=1.0, upper=0.0) at index 0", "swap them"),
    "bounds as pairs": (lambda: pf.Box([(0.0, 1.0), (0.0, 1.0)], 1.0), ValueError, "`lower` must have 0 or 1 axes", "shape (2, 2)", "take off brackets"),
    "bounds as text": (lambda: pf.Box("0", "1"), ValueError, "`lower` must be numbers", "'0'", "without quotes"),
    "bounds of two lengths": (lambda: pf.Box([0.0, 0.0], [1.0, 1.0, 1.0]), ValueError, "must have the same shape", "(2,) and (3,)", "one number fits all"),
    "a bound that is missing": (lambda: pf.Box([0.0, NAN], 1.0), ValueError, "`lower` must hold numbers or -inf", "nan", "index [1]"),
    "center before radius": (lambda: pf.Ball([0.0, 0.0], 1.0), ValueError, "`radius` must be one number", "[0.0, 0.0]", "the order is Ball(radius, center)"),
    "a radius below zero": (lambda: pf.Ball(-1.0), ValueError, "`radius > 0`", "-1.0", "must hold"),
    "the total of a simplex": (lambda: pf.Simplex(1.0), ValueError, "must be a whole number", "1.0", "Simplex(total=1.0)"),
    "two bounds for one row": (lambda: constraints.Linear([1.0, 1.0], [4.0, 4.0]), ValueError, "`bound` must be one number for each of 1 rows", "(2,)", "m rows of coefficients"),
    "a formula for coefficients": (lambda: constraints.Linear("x + y", 4.0), ValueError, "`coefficients` must be numbers", "'x + y'", "without quotes"),
    "a vector for a matrix": (lambda: constraints.Quadratic([1.0, 1.0], 4.0), ValueError, "`matrix` must have 0 or 2 axes", "(2,)", "give a matrix, such as np.diag([1.0, 1.0])"),
    "a form that is not symmetric": (lambda: constraints.Quadratic([[1.0, 1.0], [0.0, 1.0]], 4.0), ValueError, "must be symmetric", "by up to 1", "(Q + Qᵀ)/2"),
    "constraints that nothing meets": (lambda: pf.apda(pf.Problem(loss, BOX, [constraints.Linear([-1.0, -1.0], -5.0, name="floor")])), pf.InfeasibleProblem, "must exist", "max g(θ) is 3", "floor. Loosen their bounds"),
    "constraints that leave no room": (lambda: pf.safe_apda(pf.Problem(loss, BOX, [constraints.Linear([1.0, 0.0], 0.5, name="at most"), constraints.Linear([-1.0, 0.0], -0.5, name="at least")])), pf.NoStrictlyFeasibleDecision, "with g(θ) < 0 must exist", "limited by: at most, at least", "Loosen one of them, or use a method that does not explore safely, such as apda"),
    # Worlds
    "variances below zero": (lambda: pf.Gaussian([0.0, 0.0], [-1.0, 1.0]), ValueError, "must be >= 0", "-1.0", "they are squares of standard deviations"),
    "a covariance below zero": (lambda: pf.Gaussian([0.0, 0.0], [[-1.0, 0.0], [0.0, 1.0]]), ValueError, "`covariance` must be positive semidefinite", "is -1", "np.cov(samples.T) estimates one that fits"),
    "a mean with a gap": (lambda: pf.Gaussian([0.0, NAN], [1.0, 1.0]), ValueError, "`mean` must be finite", "nan at index [1]", "put a finite number there"),
    "a covariance of another size": (lambda: pf.Gaussian([0.0, 0.0], np.ones(3)), ValueError, "must fit the mean's length 2", "(3,)", "give (k,) or (k, k)"),
    "covariance before mean": (lambda: pf.Gaussian(np.eye(2), [0.0, 0.0]), ValueError, "`mean` must have 0 or 1 axes", "(2, 2)", "take off brackets"),
    "a frame with gaps": (lambda: pf.Empirical(pd.DataFrame({"a": [1.0, NAN]})), ValueError, "`samples` must be finite", "column 'a', row 1", "fill or drop it"),
    "a frame with words": (lambda: pf.Empirical(pd.DataFrame({"a": ["x"]})), ValueError, "only numeric or boolean columns", "'a' of dtype", "encode or drop them"),
    "the name of a file": (lambda: pf.Empirical("data.csv"), TypeError, "`samples` must be numbers", "'data.csv'", "Empirical.read reads"),
    "effect before base": (lambda: pf.LocationFamily(np.eye(2), BASE), TypeError, "`base` must be a distribution", "array([[1., 0.]", "it comes first"),
    "an effect without its brackets": (lambda: pf.LocationFamily(BASE, [0.5, 0.5]), ValueError, "`effect` must have 0 or 2 axes", "(2,)", "give a matrix, such as np.diag([0.5, 0.5])"),
    "an effect of another shape": (lambda: pf.LocationFamily(BASE, np.ones((3, 2))), ValueError, "one row for each of the 2 numbers in a sample", "(3, 2)", "it is (k, d)"),
    "a sensitivity for an effect": (lambda: pf.LocationFamily(BASE, 0.5), ValueError, "one row for each of the 2 numbers", "(1, 1)", "it is (k, d)"),
    "an effect for other decisions": (lambda: pf.performative_risk(LINE, pf.LocationFamily(pf.Gaussian([1.0], [1.0]), np.ones((1, 2))), [1.0]), ValueError, "one column for each of the 1 numbers in a decision", "(1, 2)", "it is (k, d)"),
    "a function for an effect": (lambda: pf.LocationFamily(BASE, lambda theta: theta), TypeError, "`effect` must be a matrix", "<lambda>", "Reaction(base, function)"),
    "a matrix for a reaction": (lambda: pf.Reaction(BASE, np.eye(2)), TypeError, "`react` must be a function of (theta, z0)", "array([[1., 0.]", "LocationFamily"),
    "a reaction of the decision alone": (lambda: risk(loss, pf.Reaction(BASE, lambda theta: theta)), ValueError, "`react` must take a decision (2,)", "takes 1 positional argument", "react(theta, z0) of one decision"),
    "a reaction that returns a matrix": (lambda: risk(loss, pf.Reaction(BASE, lambda theta, z: jnp.outer(theta, z))), ValueError, "must return one sample (k,)", "(2, 2)", "jnp.ravel"),
    "a decision before the key": (lambda: simulate({"a": METHOD}, world(lambda self, theta, key, n: jax.random.normal(key, (n, 2)))), TypeError, "`sample` must take (key, theta, n)", "takes (theta, key, n)", "in this order"),
    "samples without their number": (lambda: risk(loss, world(lambda self, key, theta: jax.random.normal(key, (1, 2)))), TypeError, "`sample` must take (key, theta, n)", "takes (key, theta)", "in this order"),
    "a world's class": (lambda: simulate({"a": METHOD}, Normal), TypeError, "`environment` must be an object", "the class Normal", "write Normal()"),
    "the optimum of a world's class": (lambda: pf.performative_optimum(PROBLEM, Normal), TypeError, "`environment` must be an object", "the class Normal", "write Normal()"),
    "the risk of a world's class": (lambda: risk(loss, pf.LocationFamily), TypeError, "`environment` must be an object", "the class LocationFamily", "write LocationFamily(base, effect)"),
    "a key for a generator": (lambda: risk(loss, pf.HostWorld(lambda key, theta, n: jax.random.normal(key, (n, 2)))), TypeError, "`sample(rng, theta, n)` of a HostWorld must draw with `rng`", "as a key of JAX", "rng.normal(size=(n, k))"),
    "samples in columns": (lambda: risk(loss, pf.HostWorld(lambda rng, theta, n: rng.normal(size=(2, n)))), ValueError, "must return samples (n, k) with n rows", "here n = 100000, but returned (2, 100000)", "give each sample a row"),
    "a path to nowhere": (lambda: pf.Drifting(WORLD, lambda t: {"base.maen": jnp.zeros(2)}), ValueError, "must name parameters of Gaussian", "'base.maen'", "choose from base.mean, base.covariance, effect, shift"),
    # Risk, optimum, stable point
    "world before problem": (lambda: pf.performative_risk(WORLD, PROBLEM, [0.0, 0.0]), TypeError, "`problem` must be a performative.Problem", "LocationFamily(", "it comes first"),
    "optimum of a world": (lambda: pf.performative_optimum(WORLD, PROBLEM), TypeError, "`problem` must be a performative.Problem", "LocationFamily(", "it comes first"),
    "a base for a world": (lambda: pf.performative_risk(PROBLEM, BASE, [0.0, 0.0]), TypeError, "`environment` must have sample", "Gaussian(", "such as LocationFamily"),
    "the optimum on a base": (lambda: pf.performative_optimum(PROBLEM, BASE), TypeError, "must have sample(key, theta, n)", "got Gaussian", "LocationFamily(base, effect)"),
    "the stable point of samples": (lambda: pf.stable_point(PROBLEM, Normal()), TypeError, "`environment` must know its risk", "Normal only samples", "give it a method risk(problem)"),
    "a decision of another length": (lambda: pf.performative_risk(PROBLEM, WORLD, [0.0, 0.0, 0.0]), ValueError, "`theta` must have shape (2,)", "(3,)", "give one number for each"),
    "a decision in two brackets": (lambda: pf.performative_risk(PROBLEM, WORLD, [[0.0, 0.0]]), ValueError, "`theta` must have 0 or 1 axes", "(1, 2)", "take off brackets"),
    "a decision as text": (lambda: pf.performative_risk(PROBLEM, WORLD, "0, 0"), ValueError, "`theta` must be numbers", "'0, 0'", "without quotes"),
    "a decision that is not a number": (lambda: pf.performative_risk(PROBLEM, WORLD, [NAN, 0.0]), ValueError, "`theta` must be finite", "nan at index [0]", "put a finite number there"),
    # Methods
    "a method on a loss": (lambda: pf.apda(loss), TypeError, "`problem` must be a performative.Problem", "function loss", "Problem(loss, decisions)"),
    "a step below zero": (lambda: pf.apda(PROBLEM, step=-0.1), ValueError, "`step > 0`", "-0.1", "must hold"),
    "a step as text": (lambda: pf.apda(PROBLEM, step="0.1"), ValueError, "`step` must be numbers", "'0.1'", "without quotes"),
    "a step that branches": (lambda: pf.apda(PROBLEM, step=lambda t: 0.1 if t < 9 else 0.01), TypeError, "`step` must be a function of the round", "test_mistakes.py:", "jnp.where"),
    "a warm-up of 1e3": (lambda: pf.apda(PROBLEM, warmup=1e3), ValueError, "`warmup` must be a whole number >= 1", "1000.0", "write 1000"),
    "no exploration": (lambda: pf.apda(PROBLEM, exploration=0.0), ValueError, "`exploration > 0`", "0.0", "must hold"),
    "probes in other words": (lambda: pf.apda(PROBLEM, probes="inward"), ValueError, "`probes` must be", "'inward'", "'anywhere' or 'inside'"),
    "a start outside": (lambda: pf.apda(PROBLEM, start=[5.0, 5.0]), ValueError, "`start` must lie in the decision set", "[5. 5.]", "project"),
    "a start of another length": (lambda: pf.apda(PROBLEM, start=[0.5]), ValueError, "the problem has dimension 2", "decisions of 1 numbers", "`start`"),
    "forgetting in percent": (lambda: pf.apda(PROBLEM, recycle=True, forgetting=99), ValueError, "`forgetting <= 1`", "99", "such as 0.99"),
    "an effect in one bracket": (lambda: pf.oracle(PROBLEM, effect=[0.1, 0.2]), ValueError, "`effect` must have 0 or 2 axes", "(2,)", "give a matrix, such as np.diag([0.1, 0.2])"),
    "a grid without an end": (lambda: pf.confidence_bounds(pf.Problem(loss, pf.Box([0.0], [np.inf])), sensitivity=1.0), ValueError, "the decision set must be bounded", "inf", "bounded"),
    # Ask and tell
    "a seed for a key": (lambda: METHOD.init(0), TypeError, "`key` must be a random key", "0", "jax.random.key(0)"),
    "a seed for the key of safe APDA": (lambda: pf.safe_apda(PROBLEM).init(0), TypeError, "`key` must be a random key", "0", "jax.random.key(0)"),
    "a seed for the key of two stages": (lambda: pf.two_stage(PROBLEM, warmup=2).init(0), TypeError, "`key` must be a random key", "0", "jax.random.key(0)"),
    "a seed for a key that is not used": (lambda: pf.repeated_minimization(PROBLEM).init(0), TypeError, "`key` must be a random key", "0", "jax.random.key(0)"),
    "a seed for the key of a grid": (lambda: pf.confidence_bounds(LINE, sensitivity=1.0, arms=5).init(0), TypeError, "`key` must be a random key", "0", "jax.random.key(0)"),
    "samples without their first axis": (lambda: told(np.zeros((2, 2))), ValueError, "`samples` must have shape (1, n, k)", "(2, 2)", "samples[None]"),
    "samples of another width": (lambda: told(np.zeros((1, 2, 3))), ValueError, "one sample of shape (3,)", "incompatible shapes", ONE),
    "samples with gaps": (lambda: told(np.full((1, 2, 2), NAN)), ValueError, "`samples` must be finite", "nan at index [0, 0, 0]", "put a finite number there"),
    "a decision without its brackets": (lambda: told(np.zeros((1, 2, 2)), [0.0, 0.0]), ValueError, "`decisions` must have shape (b, 2)", "(2,)", "those that `ask` returned"),
    "the state in second place": (lambda: METHOD.tell([[0.0, 0.0]], METHOD.init(KEY), np.zeros((1, 2, 2))), TypeError, "`decisions` must be numbers", "the state", "tell(state, decisions, samples)"),
    # Simulations and comparisons
    "a list of methods": (lambda: simulate([METHOD]), ValueError, "`methods` must be a mapping from names", "[PrimalDual(", 'write {"name": method}'),
    "a method without a name": (lambda: simulate(METHOD), ValueError, "`methods` must be a mapping from names", "PrimalDual(", 'write {"name": method}'),
    "a method that was not made": (lambda: simulate({"apda": pf.apda}), TypeError, "must be a method such as performative.apda(problem)", "function apda", "call a method's function"),
    "a problem for a world": (lambda: simulate({"apda": METHOD}, PROBLEM), TypeError, "`environment` must have sample", "Problem(", "such as LocationFamily"),
    "rounds of 1e4": (lambda: simulate({"apda": METHOD}, rounds=1e4), ValueError, "`rounds` must be a whole number", "10000.0", "write 10000"),
    "a key for a seed": (lambda: simulate({"apda": METHOD}, seed=KEY), ValueError, "`seed`", "key<fry>", "must be a whole number >= 0"),
    "a round beyond the last": (lambda: simulate({"apda": METHOD}, record=[100]), ValueError, "`record` must lie within", "100", "1..2"),
    "a world of another dimension": (lambda: simulate({"apda": pf.apda(LINE, warmup=2)}), ValueError, "the problem has dimension 1", "2 numbers", "`environment`"),
    "two problems": (lambda: simulate({"a": METHOD, "b": pf.apda(pf.Problem(loss, BOX), warmup=2)}), ValueError, "must know the same problem", "'a' and 'b' differ", "choose one with `problem=`"),
    "a vector for the optimum": (lambda: simulate({"a": METHOD}, optimum=np.zeros(2)), TypeError, "`optimum` must be a performative.Solution", "array([0., 0.])", "pass what performative_optimum returns"),
    "a list for the optimum": (lambda: simulate({"a": METHOD}, optimum=[5.0]), TypeError, "`optimum` must be a performative.Solution", "but got [5.0]", "pass what performative_optimum returns"),
    "lists of two lengths": (lambda: simulate({"a": [METHOD] * 2}, [WORLD] * 3), ValueError, "of the same length", "'environment': 3", "lists of instances"),
    "a world that returns one sample": (lambda: simulate({"a": METHOD}, world(lambda self, key, theta, n: jnp.zeros(2))), ValueError, "must return samples (n, k)", "(2,)", "n rows"),
    "a problem misspelled": (lambda: pf.compare("revenu", methods=["apda"], deployments=10), ValueError, "`problem` must be one of", "'revenu'", "did you mean 'revenue'?"),
    "a method misspelled": (lambda: pf.compare("revenue", methods=["adpa"], deployments=10), ValueError, "must be among", "'adpa'", "did you mean 'apda'?"),
    "a method for a function of the problem": (lambda: pf.compare("revenue", methods=[METHOD], deployments=10), TypeError, "functions of the problem", "PrimalDual(", 'write {"name": method}'),
    "a name in capitals": (lambda: pf.APDA, AttributeError, "has no attribute", "'APDA'", "did you mean 'apda'?"),
    "an array for a dataset": (lambda: pf.plot(np.zeros(3)), ValueError, "`dataset` must be a dataset of `simulate`", "ndarray", "`Study.history`"),
    "the name of a dataset": (lambda: pf.plot("x.nc"), ValueError, "`dataset` must be a dataset of `simulate`", "'x.nc'", "open it with xarray.open_dataset"),
    # Studies in TOML
    "a type misspelled": (lambda: describe(TOML + '[method]\ntype = "adpa"'), pf.SpecError, "method.type: must be one of", "'adpa'", "'apda'"),
    "a key misspelled": (lambda: describe(TOML + '[method]\ntype = "apda"\nstpe = 0.1'), pf.SpecError, "method.stpe: unknown key", "0.1", "did you mean 'step'?"),
    "no method": (lambda: describe(TOML), pf.SpecError, "method", "", "must be given"),
    "a bracket forgotten": (lambda: describe(TOML + '[method\ntype = "apda"'), pf.SpecError, "the file is not valid TOML", "line 8", "Expected ']'"),
    "a number in quotes": (lambda: describe(TOML + '[method]\ntype = "apda"\nstep = "0.1"'), pf.SpecError, "method.step", "'0.1'", "must be a number > 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_by_its_rule_its_value_and_its_remedy(name):
    call, kind, *words = MISTAKES[name]
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    for word in words:
        assert word in str(caught.value)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studies")
    path = folder / "studies.db"
    with pf.Study.create(path, "s", pf.repeated_gradient(PROBLEM)) as study:
        yield types.SimpleNamespace(folder=folder, path=path, study=study, open=study.ask())


IN_STUDIES = {
    "name before path": (lambda at: pf.Study.create("eu", f"{at.folder}/x.db", METHOD), ValueError, "`name` must be a plain name", "x.db", "Study.create(path, name, method)"),
    "a study of a problem": (lambda at: pf.Study.create(at.path, "t", PROBLEM), TypeError, "`method` must be a method", "Problem(", "performative.apda(problem)"),
    "a study that exists": (lambda at: pf.Study.create(at.path, "s", METHOD), pf.StudyError, "`name` must be new", "'s'", "open it with Study.open"),
    "a file that does not exist": (lambda at: pf.Study.open(at.folder / "none.db", "s", METHOD), pf.StudyError, "does not exist", "none.db", "create a study with Study.create"),
    "a study that does not exist": (lambda at: pf.Study.open(at.path, "t", METHOD), pf.StudyError, "has no study", "'t'", "it holds 's'"),
    "another step": (lambda at: pf.Study.open(at.path, "s", pf.repeated_gradient(PROBLEM, step=0.5)), pf.OtherMethod, "the problem and method it was created with", "but got 0.5", "stored 0.005"),
    "a seed of one and a half": (lambda at: pf.Study.create(at.path, "t", METHOD, seed=1.5), ValueError, "`seed`", "1.5", "must be a whole number >= 0"),
    "samples without an axis": (lambda at: at.study.tell(at.open, np.zeros((1, 2))), ValueError, "`samples` must have shape (1, n, k)", "(1, 2)", "samples[None]"),
    "samples that are words": (lambda at: at.study.tell(at.open, [[["a", "b"]]]), ValueError, "`samples` must be numbers", "'a'", "encode words"),
    "a frame of words": (lambda at: at.study.tell(at.open, pd.DataFrame({"a": ["x"]})), ValueError, "only numeric or boolean columns", "'a' of dtype", "encode or drop"),
    "decisions for a deployment": (lambda at: at.study.tell(at.open.decisions, np.zeros((1, 1, 2))), TypeError, "`deployment` must be", "array([[0., 0.]])", "what `ask` returned"),
    "a deployment that never was": (lambda at: at.study.tell(99, np.zeros((1, 1, 2))), ValueError, "must be the number of a deployment", "99", "no event 99"),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_STUDIES)
def test_a_mistake_with_a_study_is_told_and_changes_nothing(place, name):
    call, kind, *words = IN_STUDIES[name]
    with pytest.raises(kind) as caught:
        call(place)
    for word in words:
        assert word in str(caught.value)
    assert place.study.ask().id == place.open.id


COMMANDS = {
    "a problem misspelled": (["compare", "revenu"], "`problem` must be one of", "'revenu'", "did you mean 'revenue'?"),
    "an experiment misspelled": (
        ["reproduce", "regresion"],
        "must be one of",
        "'regresion'",
        "did you mean 'regression'?",
    ),
    "a method misspelled": (
        ["reproduce", "regression", "--methods", "apda,pdps"],
        "must be among",
        "got 'pdps'",
        "did you mean 'pd-ps'?",
    ),
    "no method": (["reproduce", "regression", "--methods", ""], "must be at least one of", "got none", "'apda'"),
    "a command misspelled": (["stduy"], "No such command", "'stduy'", "Did you mean 'study'?"),
    "a study's file that does not exist": (
        ["study", "ask", "--store", "none.db"],
        "does not exist",
        "none.db",
        "performative study new SPEC --store none.db",
    ),
    "a description that does not exist": (
        ["study", "new", "none.toml", "--store", "a.db"],
        "does not exist",
        "none.toml",
        "write a description of the study there",
    ),
    "results that do not exist": (["plot", "none.nc", "--out", "a.png"], "is not a file", "none.nc", "does not exist"),
    "a problem's file that does not exist": (
        ["check", "none.py"],
        "a Python file that exists",
        "'none.py'",
        "'portfolio'",
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_mistake_at_the_terminal_is_told_in_words(monkeypatch, tmp_path, name):
    monkeypatch.chdir(tmp_path)
    words, *fragments = COMMANDS[name]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "400", "TERM": "dumb"})
    assert result.exit_code in (1, 2)
    output = " ".join(result.output.replace("│", " ").split())
    for fragment in fragments:
        assert fragment in output


def test_the_tables_hold_enough():
    assert len(MISTAKES) + len(IN_STUDIES) + len(COMMANDS) >= 60
