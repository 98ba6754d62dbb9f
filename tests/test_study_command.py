"""Studies without Python: descriptions in TOML, the command line, and the pricing example."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest
import xarray as xr
from typer.testing import CliRunner

import performative as pf
from performative import losses
from performative.cli import app
from performative.numerics.precision import precise
from performative.study.spec import SpecError, describe

ROOT = Path(__file__).parent.parent
PRICING = ROOT / "examples" / "pricing"

SPEC = """
name = "eu"
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
samples = 5
"""


def run(*words, code=0):
    done = CliRunner().invoke(app, ["study", *map(str, words)], env={"COLUMNS": "120"})
    assert done.exit_code == code, done.output
    return done.output


def number(asked):
    return "--deployment", asked["id"]


def demand(prices, n, seed):
    noise = np.random.default_rng(seed).normal(size=(n, 2))
    return np.array([6.0, 5.0]) - np.asarray(prices) + 0.1 * noise


# Losses.


@pytest.mark.parametrize(
    ("loss", "theta", "z", "value"),
    [
        (losses.SquaredError(ridge=0.2), [1.0, -2.0], [3.0, 1.0, 4.0], 0.5 * 9.0 + 0.1 * 5.0),
        (losses.Revenue(cost=[0.5, 1.0]), [2.0, 3.0], [7.0, 4.0], -(1.5 * 7.0 + 2.0 * 4.0)),
        (losses.PortfolioReturn(aversion=0.3), [0.2, 0.5], [1.0, -1.0], 0.3 + 0.3 * 0.29),
        (losses.Logistic(ridge=0.1), [1.0, 2.0], [0.5, -1.0, 1.0], np.log1p(np.exp(-1.5)) + 1.5 + 0.05 * 5.0),
        (losses.Pinball(level=0.9), [1.0, 5.0], [3.0, 4.0], 0.9 * 2.0 + 0.1 * 1.0),
    ],
)
def test_losses_are_their_formulas(loss, theta, z, value):
    with precise():
        assert float(loss(jnp.asarray(theta), jnp.asarray(z))) == pytest.approx(value, rel=1e-12)


def test_a_smoothed_pinball_loss_approaches_the_sharp_one_from_above():
    with precise():
        theta, z = jnp.asarray([1.0]), jnp.asarray([1.3])
        sharp = float(losses.Pinball(0.7)(theta, z))
        smooth = [float(losses.Pinball(0.7, smoothing=s)(theta, z)) for s in (0.1, 0.01)]
        assert smooth[0] > smooth[1] >= sharp
        assert smooth[1] == pytest.approx(sharp, abs=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: losses.Pinball(level=1.0), "`0 < level < 1` must hold, but got level=1.0"),
        (lambda: losses.Logistic(ridge=-1.0), "`ridge >= 0` must hold, but got ridge=-1.0"),
        (lambda: losses.Revenue(cost=np.nan), "`cost` must be finite"),
        (lambda: pf.Problem(losses.Revenue(), pf.Ball(1.0), dimension=2).check_samples(3), "a quantity for each price"),
        (lambda: pf.Problem(losses.Logistic(), pf.Ball(1.0), dimension=2).check_samples(2), "features and a label"),
    ],
)
def test_losses_refuse_what_makes_no_sense(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


@pytest.mark.parametrize("loss", [losses.Pinball(0.8, smoothing=0.05), losses.SquaredError(0.1), losses.Logistic(0.1)])
def test_smooth_losses_suit_safe_apda(loss):
    width = 1 if isinstance(loss, losses.Pinball) else 2
    method = pf.safe_apda(pf.Problem(loss, pf.Ball(2.0), dimension=1))
    state = method.init(jax.random.key(0))
    for t in range(3):
        asked = method.ask(state, jax.random.key(t))
        state = method.tell(state, asked, np.full((1, 1, width), 0.5 + t))
    assert np.all(np.isfinite(state.decision))


# Descriptions.


def test_a_description_is_the_method_that_it_describes():
    found = describe(SPEC)
    assert (found.name, found.seed) == ("eu", 3)
    problem = pf.Problem(
        losses.Revenue(), pf.Box([0.0, 0.0], [4.0, 4.0]), [pf.constraints.Linear([1.0, 1.0], 4.0, name="cap")]
    )
    own = pf.safe_apda(problem, samples=5)
    ours, theirs = jax.tree.leaves(found.method), jax.tree.leaves(own)
    assert jax.tree.structure(found.method) == jax.tree.structure(own)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "method",
    [
        'type = "apda"\nstep = 0.01\nwarmup = 5\nrecycle = true\nforgetting = 0.9',
        'type = "pd_ps"\nestimation_step = 0.1',
        'type = "repeated_gradient"\nsamples = 3',
        'type = "repeated_minimization"',
        'type = "two_stage"\nstage = 10',
        'type = "one_point"\nexploration = 0.2',
        'type = "two_point"\nstart = [1.0, 1.0]',
        'type = "safe_apda"\nsafety = "nearest"\neffect = [[0.0, 0.0], [0.0, 0.0]]',
    ],
)
def test_every_method_of_the_library_can_be_described(method):
    text = SPEC[: SPEC.index("[method]")] + "[method]\n" + method
    made = describe(text).method
    assert made.problem.dimension == 2


@pytest.mark.parametrize(
    "loss",
    [
        'type = "squared_error"',
        'type = "logistic"\nridge = 0.1',
        'type = "pinball"\nlevel = 0.9',
        'type = "portfolio_return"',
    ],
)
def test_every_loss_of_the_library_can_be_described(loss):
    text = re.sub(r'\[loss\]\ntype = "revenue"', "[loss]\n" + loss, SPEC).replace("safe_apda", "repeated_gradient")
    assert describe(text).method.problem.dimension == 2


def test_every_error_is_reported_at_once_with_its_key_and_value():
    text = """
nam = "eu"
seed = -1

[decisions]
type = "box"
lower = [0.0, "x"]

[[constraints]]
type = "linear"
coefficients = [1.0, 1.0]
bound = nan

[[constraints]]
type = "cubic"

[loss]
type = "revenue"
costs = 3

[method]
type = "safe_apda"
samples = 0
reservoir = 2.5
"""
    with pytest.raises(SpecError) as refused:
        describe(text)
    assert refused.value.lines == [
        "name: must be given",
        "seed: must be a whole number from 0 to 9223372036854775807, but got -1",
        "nam: is no key of this table, but got 'eu'",
        "decisions.lower: must be a finite number or a list of them, but got [0.0, 'x']",
        "decisions.upper: must be given",
        "constraints[0].bound: must be a finite number or a list of them, but got nan",
        "constraints[1].type: must be one of 'linear', 'quadratic', 'function', but got 'cubic'",
        "loss.costs: is no key of this table, but got 3",
        "method.samples: must be a whole number from 1 to 33554432, but got 0",
        "method.reservoir: must be a whole number from 1 to 33554432, but got 2.5",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed = 3", "seed = ", "must be TOML"),
        (
            "upper = [4.0, 4.0]",
            "upper = [4.0, -1.0]",
            "decisions.upper: must be at least lower = [0.0, 0.0], but got [4.0, -1.0]",
        ),
        ("bound = 4.0", "bound = -1.0", "constraints: a decision in the set with g(θ) <= 0 must exist"),
        (
            "coefficients = [1.0, 1.0]",
            "coefficients = [1.0, 1.0, 1.0]",
            "constraints[0].coefficients: must have the length 2 of decisions.lower",
        ),
        ('type = "revenue"', 'type = "function"\nfunction = "no_module:loss"', "cannot be imported"),
        ('type = "revenue"', 'type = "function"\nfunction = "math:pi"', "must be a function"),
        ('type = "revenue"', 'type = "pinball"\nlevel = 2.0', "loss.level: must be a number > 0 and < 1, but got 2.0"),
        ("samples = 5", "forgetting = 1.5", "method.forgetting: must be a number > 0 and <= 1, but got 1.5"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(old, new, message):
    assert old in SPEC
    with pytest.raises(SpecError, match=re.escape(message)):
        describe(SPEC.replace(old, new))


def test_several_parts_that_the_library_refuses_are_all_named():
    text = SPEC.replace("upper = [4.0, 4.0]", "upper = [-4.0, 4.0]").replace("bound = 4.0", "bound = [1.0, 2.0, 3.0]")
    with pytest.raises(SpecError) as refused:
        describe(text.replace('type = "revenue"', 'type = "function"\nfunction = "nowhere:loss"'))
    assert [line.split(":")[0] for line in refused.value.lines] == ["decisions.upper", "constraints[0]", "loss"]


def test_lists_of_other_lengths_and_a_method_that_does_not_fit_are_all_named():
    """Each table is as it should be, but they do not go together."""
    text = SPEC.replace("coefficients = [1.0, 1.0]", "coefficients = [1.0, 1.0, 1.0]")
    text = text.replace('type = "revenue"', 'type = "pinball"\nlevel = 0.9')
    with pytest.raises(SpecError) as refused:
        describe(text + "start = [1.0]\nanchor = [1.0, 2.0, 3.0]\neffect = [[1.0, 0.0]]\n")
    assert refused.value.lines == [
        "loss.smoothing: must be > 0 with safe_apda, which needs a loss without kinks",
        "constraints[0].coefficients: must have the length 2 of decisions.lower, but has 3: [1.0, 1.0, 1.0]",
        "method.start: must have the length 2 of decisions.lower, but has 1: [1.0]",
        "method.anchor: must have the length 2 of decisions.lower, but has 3: [1.0, 2.0, 3.0]",
        "method.effect: must have 2 rows, one for each number of a sample, but has 1",
    ]
    with pytest.raises(SpecError, match=re.escape("method.start: must lie in the decision set, but got [5.0, 0.0]")):
        describe(SPEC + "start = [5.0, 0.0]\n")
    simplex = SPEC.replace('"box"', '"simplex"').replace("lower = [0.0, 0.0]\nupper = [4.0, 4.0]", "total = 1.0")
    simplex = simplex.replace("coefficients = [1.0, 1.0]", "coefficients = [1.0]")
    free = re.sub(r"\[\[constraints\]\].*(?=\[loss\])", "", simplex, flags=re.DOTALL)
    with pytest.raises(SpecError, match="dimension: must be given, since no other key tells"):
        describe(free)


def test_what_no_decision_can_meet_is_named_beside_the_rest():
    double = SPEC[SPEC.index("[[constraints]]") : SPEC.index("[loss]")]
    start = "start = [5.0, 0.0]\nanchor = [-1.0, 1.0]\n"
    with pytest.raises(SpecError) as refused:
        describe(SPEC.replace("[loss]", double + "[loss]") + start)
    assert refused.value.lines == [
        "constraints: constraints must have different names, but got ['cap', 'cap']",
        "method.start: must lie in the decision set, but got [5.0, 0.0]",
        "method.anchor: must lie in the decision set, but got [-1.0, 1.0]",
    ]
    with pytest.raises(SpecError) as refused:
        describe(SPEC.replace("bound = 4.0", "bound = -4.0") + start)
    assert [line.split(":")[0] for line in refused.value.lines] == ["method.start", "method.anchor", "constraints"]
    with pytest.raises(
        SpecError, match=re.escape("method.anchor: must keep clear of every constraint, but got [4.0, 4.0]")
    ):
        describe(SPEC + "anchor = [4.0, 4.0]\n")
    with pytest.raises(SpecError) as refused:
        describe('name = "eu"\ndecisions = 3\nconstraints = [1]\nloss = 2\n[method]\ntype = 3\n')
    assert [line.partition(", but got ")[0] for line in refused.value.lines[:3]] == [
        "decisions: must be a table",
        "constraints[0]: must be a table",
        "loss: must be a table",
    ]
    assert refused.value.lines[3].endswith("but got 3")


def test_what_a_users_function_does_wrong_is_a_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("broken_losses.py").write_text("def loss(theta, z):\n    return undefined\n")
    Path("exiting_losses.py").write_text("import sys\nsys.exit(3)\n")
    Path("wide_losses.py").write_text("def loss(theta, z):\n    return z\n")
    Path("numpy_losses.py").write_text("import numpy\ndef loss(theta, z):\n    return numpy.sum(numpy.asarray(z))\n")
    for module, message in (
        ("broken_losses", "loss: NameError"),
        ("exiting_losses", "cannot be imported: SystemExit: 3"),
        ("wide_losses", "loss: `loss` must return a scalar"),
        ("numpy_losses", "loss: `loss` must take a decision"),
    ):
        with pytest.raises(SpecError, match=message):
            describe(SPEC.replace('type = "revenue"', f'type = "function"\nfunction = "{module}:loss"'))


def test_errors_are_short_and_huge_numbers_are_refused():
    long = SPEC.replace("lower = [0.0, 0.0]", f"lower = {['x'] * 100_000}")
    with pytest.raises(SpecError) as refused:
        describe(long)
    assert len(str(refused.value)) < 1000
    for old, new in (("bound = 4.0", f"bound = 1{'0' * 400}"), ("samples = 5", "samples = 1000000000000")):
        with pytest.raises(SpecError, match=new.split()[0]):
            describe(SPEC.replace(old, new))
    with pytest.raises(SpecError, match="must be TOML"):
        describe("a = " + "[" * 100_000)


# The command line.


def test_a_study_from_the_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("spec.toml").write_text(SPEC)
    assert "study eu created in prices.db" in run("new", "spec.toml", "--store", "prices.db")
    store = ("--store", "prices.db")
    assert "ask for the next decisions" in run("status", *store)
    assert "Missing option '--deployment'" in run("tell", "spec.toml", *store, code=2)
    Path("told.csv").write_text("a,b\n1,2\n")
    assert "there is no number 1" in run("tell", "told.csv", "--deployment", 1, *store, code=1)
    asked = json.loads(run("ask", "--json", *store))
    assert asked["samples"] == 5
    assert json.loads(run("ask", "--json", *store)) == asked
    shown = run("ask", *store)
    assert f"deployment {asked['id']}" in shown
    assert "slack: cap" in shown
    pandas.DataFrame(demand(asked["decisions"][0], 5, 0), columns=["a", "b"]).to_csv("told.csv", index=False)
    assert "told: round 1" in run("tell", "told.csv", *number(asked), *store)
    assert "told: round 1" in run("tell", "told.csv", *number(asked), *store)  # again, accepted once
    pandas.read_csv("told.csv")[["b", "a"]].to_csv("turned.csv", index=False)
    assert "told: round 1" in run("tell", "turned.csv", *number(asked), *store)
    asked = json.loads(run("ask", "--json", *store))
    assert f"deployment {asked['id']} cancelled" in run("cancel", "--reason", "a holiday", *number(asked), *store)
    asked = json.loads(run("ask", "--json", *store))
    Path("told.json").write_text(json.dumps(demand(asked["decisions"][0], 7, 1).tolist()))
    assert "told: round 2" in run("tell", "told.json", *number(asked), *store)
    asked = json.loads(run("ask", "--json", *store))
    frame = pandas.DataFrame(demand(asked["decisions"][0], 5, 2), columns=["a", "b"])
    frame.assign(decision=0).to_parquet("told.parquet")
    frame.rename(columns={"a": "c"}).to_csv("other.csv", index=False)
    assert "must have the columns ['a', 'b']" in run("tell", "other.csv", *number(asked), *store, code=1)
    assert "told: round 3" in run("tell", "told.parquet", *number(asked), *store)
    log = run("log", *store).splitlines()
    assert [line.split()[3] for line in log] == ["create", "ask", "tell", "ask", "cancel", "ask", "tell", "ask", "tell"]
    assert "a holiday" in log[4]
    lines = [json.loads(line) for line in run("log", "--json", *store).splitlines()]
    assert lines[6]["samples"] == [demand(lines[5]["decisions"][0], 7, 1).tolist()]
    status = run("status", *store)
    assert "constraint cap: slack" in status
    assert "3 deployments told" in status
    assert "±" in status
    numbers = json.loads(run("status", "--json", *store))
    assert numbers["told"] == 3
    assert np.shape(numbers["slack_history"]) == (3, 1)
    assert numbers["now"]["low"] < numbers["now"]["risk"] < numbers["now"]["high"]
    assert "9 events and 3 tells are as they were" in run("verify", *store)
    run("plot", *store, "--out", "study.png")
    assert Path("study.png").read_bytes()[:4] == b"\x89PNG"
    for name in ("study.nc", "study.csv", "study.parquet"):
        assert "3 deployments" in run("export", *store, "--out", name)
    with xr.open_dataset("study.nc", engine="netcdf4") as past:
        assert past["samples"].values.tolist() == [5, 7, 5]
    table = pandas.read_csv("study.csv")
    assert table["samples"].tolist() == [5, 7, 5]
    np.testing.assert_allclose(table[["theta_0", "theta_1"]].values[2], asked["decisions"][0], rtol=1e-12)


def test_pairs_of_decisions_are_told_by_a_column(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("spec.toml").write_text(
        SPEC[: SPEC.index("[method]")] + '[method]\ntype = "apda"\nwarmup = 4\nexploration = 0.1'
    )
    store = ("--store", "prices.db")
    run("new", "spec.toml", *store)
    asked = json.loads(run("ask", "--json", *store))
    Path("told.json").write_text(json.dumps([demand(asked["decisions"][0], 4, 0).tolist()]))
    run("tell", "told.json", *number(asked), *store)
    asked = json.loads(run("ask", "--json", *store))
    assert len(asked["decisions"]) == 2
    parts = [
        pandas.DataFrame(demand(row, 3, i)).add_prefix("z").assign(decision=i)
        for i, row in enumerate(asked["decisions"])
    ]
    wrong = pandas.concat([parts[0], parts[1].assign(decision=2)])
    wrong.to_csv("wrong.csv", index=False)
    assert "the column `decision` must hold 0 to 1" in run("tell", "wrong.csv", *number(asked), *store, code=1)
    pandas.concat([parts[0], parts[1][:2]]).to_csv("uneven.csv", index=False)
    assert "as many samples" in run("tell", "uneven.csv", *number(asked), *store, code=1)
    pandas.concat(parts).to_csv("told.csv", index=False)
    assert "told: round 2" in run("tell", "told.csv", *number(asked), *store)


def test_errors_are_lines_and_change_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("bad.toml").write_text(SPEC.replace('name = "eu"', "").replace("samples = 5", "samples = 0"))
    printed = run("new", "bad.toml", "--store", "prices.db", code=1)
    assert printed.splitlines() == [
        "error: name: must be given",
        "error: method.samples: must be a whole number from 1 to 33554432, but got 0",
    ]
    assert not Path("prices.db").exists()
    assert "must exist, but does not" in run("ask", "--store", "prices.db", code=1)
    assert "No such file" in run("new", "nowhere.toml", "--store", "prices.db", code=1)
    Path("spec.toml").write_text(SPEC)
    run("new", "spec.toml", "--store", "prices.db")
    assert "has a study 'eu' already" in run("new", "spec.toml", "--store", "prices.db", code=1)
    run("ask", "--store", "prices.db")
    for name, text, message in (
        ("a.csv", "x,y\n1,nan\n", "must be finite"),
        ("b.csv", "x\n1\n", "a quantity for each price"),
        ("c.json", "{", "must be JSON"),
        ("d.json", '"text"', "must be numbers"),
        ("g.json", "[[1e400, 1]]", "must be finite"),
        ("h.json", f"[[1{'0' * 400}, 1]]", "must be numbers"),
        ("i.json", "[" * 100_000, "must be JSON"),
        ("e.txt", "1 2", "must end in"),
        ("f.csv", "x,y\n", "must hold at least one sample"),
    ):
        Path(name).write_text(text)
        assert message in run("tell", name, "--deployment", 1, "--store", "prices.db", code=1)
    Path("other.toml").write_text(SPEC.replace('"eu"', '"us"'))
    run("new", "other.toml", "--store", "prices.db")
    for words in (("plot", "--out", "a.gif"), ("export", "--out", "a.xls")):
        assert "`out` must end in" in run(*words, "--store", "prices.db", "--name", "eu", code=1)
    assert "`--name` must say which study" in run("ask", "--store", "prices.db", code=1)
    assert "has no study 'asia'" in run("ask", "--store", "prices.db", "--name", "asia", code=1)
    assert "0 tells are as they were" in run("verify", "--store", "prices.db", "--name", "us")
    pf.Study.create("own.db", "own", describe(SPEC).method).close()
    assert "was not created from a description" in run("ask", "--store", "own.db", code=1)


def test_a_loss_of_ones_own_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my_losses_here.py").write_text(
        "import jax.numpy as jnp\ndef dear(theta, z):\n    return -jnp.sum(theta * z)\n"
    )
    Path("spec.toml").write_text(
        SPEC.replace('type = "revenue"', 'type = "function"\nfunction = "my_losses_here:dear"')
    )
    run("new", "spec.toml", "--store", "prices.db")
    asked = json.loads(run("ask", "--json", "--store", "prices.db"))
    assert len(asked["decisions"]) == 1


# The example.


def test_the_pricing_example_runs_and_goes_on_where_it_stopped(tmp_path):
    for name in ("spec.toml", "world.py", "run.py"):
        shutil.copy(PRICING / name, tmp_path / name)

    def play():
        done = subprocess.run(
            [sys.executable, "run.py", "out"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout

    printed = play()
    assert "round 40" in printed
    assert "constraint mean price: slack" in printed
    assert (tmp_path / "out" / "prices.png").read_bytes()[:4] == b"\x89PNG"
    assert play() == printed  # nothing is left to do
    with pf.Study.open(tmp_path / "out" / "prices.db", "prices") as study:
        past = study.history()
        assert past["slack"].values.min() >= 0.0  # no deployment broke a constraint
        assert study.verify().told == 40
        # The market's optimum, from its own numbers, and what the study makes of it.
        sys.path.insert(0, str(PRICING))
        try:
            import world
        finally:
            sys.path.remove(str(PRICING))
        market = pf.LocationFamily(pf.Gaussian(world.BASE, np.full(3, world.NOISE**2)), world.EFFECT)
        best = pf.performative_optimum(study.method.problem, market)
        begun = pf.performative_risk(study.method.problem, market, [2.0, 2.0, 2.0])
        reached = pf.performative_risk(study.method.problem, market, np.asarray(study.state.decision))
        assert reached - best.risk < 0.1 * (begun - best.risk)
        found = study.status()
        assert np.all(np.abs(found.effect - world.EFFECT) < 3 * found.effect_error)  # of nine entries
        assert np.all(found.effect_error < 0.1)
