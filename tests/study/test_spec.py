"""Studies described in TOML: what a description stands for, and every error in it at once."""

import re
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
from described import SPEC
from descriptions import descriptions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import performative as pf
from performative import losses
from performative.study.spec import SpecError, describe


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
        'type = "safe_apda"\nloss_budget = inf\nmax_move = 0.5\ndeployments = 40\ndeployments_per_round = 3',
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
        "nam: unknown key (value 'eu'); did you mean 'name'?",
        "decisions.lower: must be a number, -inf or a list of them, but got [0.0, 'x']",
        "decisions.upper: must be given",
        "constraints[0].bound: must be a finite number or a list of them, but got nan",
        "constraints[1].type: must be one of 'linear', 'quadratic', 'function', but got 'cubic'",
        "loss.costs: unknown key (value 3); did you mean 'cost'?",
        "method.samples: must be a whole number from 1 to 33554432, but got 0",
        "method.reservoir: must be a whole number from 1 to 33554432, but got 2.5",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed = 3", "seed = ", "is not valid TOML"),
        (
            "upper = [4.0, 4.0]",
            "upper = [4.0, -1.0]",
            "decisions.upper: must be at least lower = [0.0, 0.0], but got [4.0, -1.0]",
        ),
        (
            "lower = [0.0, 0.0]",
            "lower = [[], [0]]",
            "decisions.lower: must be a number, -inf or a list of them, but got",
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
        ("samples = 5", "loss_budget = 0", "method.loss_budget: must be a number > 0, or inf, but got 0"),
        ("samples = 5", "loss_budget = true", "method.loss_budget: must be a number > 0, or inf, but got True"),
        (
            "samples = 5",
            "max_move = [0.1, 0.0]",
            'method.max_move: must be a number > 0, a share such as "5%", or a list of them, but got',
        ),
        (
            "samples = 5",
            'max_move = "5 percent"',
            'method.max_move: must be a number > 0, a share such as "5%", or a list',
        ),
        (
            "samples = 5",
            "signs = [[-1, 2], [0, nan]]",
            "method.signs: must be a list of rows of -1, 0, 1 or nan, but got",
        ),
        (
            "samples = 5",
            "effect_error = [[0.1, 0.1], [0.1, 0.0]]",
            "method.effect_error: must be a number > 0 or a list of rows",
        ),
        ("samples = 5", "max_move = [0.1]", "method.max_move: must have the length 2 of decisions.lower, but has 1"),
        ("samples = 5", "deployments = 0", "method.deployments: must be a whole number from 1 to"),
        ("samples = 5", "deployments_per_round = 0.5", "method.deployments_per_round: must be a whole number from 1"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(old, new, message):
    assert old in SPEC
    with pytest.raises(SpecError, match=re.escape(message)):
        describe(SPEC.replace(old, new))


def test_the_options_of_safe_apda_reach_it():
    options = (
        'start = [1.0, 1.0]\nloss_budget = 0.5\nmax_move = [0.1, "20%"]\ndeployments = 40\ndeployments_per_round = 3\n'
        "exploration = 2.0\n"
        "effect = [[-1.0, 0.0], [0.0, -1.0]]\neffect_error = [[0.5, nan], [nan, 0.5]]\nsigns = [[-1, 0], [nan, -1]]\n"
    )
    made = describe(SPEC + options).method
    own = pf.safe_apda(
        made.problem,
        samples=5,
        loss_budget=0.5,
        start=[1.0, 1.0],
        max_move=[0.1, "20%"],
        effect=-np.eye(2),
        effect_error=[[0.5, np.nan], [np.nan, 0.5]],
        signs=[[-1, 0], [np.nan, -1]],
        deployments=40,
        deployments_per_round=3,
        exploration=2,
    )
    assert jax.tree.structure(made) == jax.tree.structure(own)
    for one, other in zip(jax.tree.leaves(made), jax.tree.leaves(own), strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.isinf(describe(SPEC + "loss_budget = inf\n").method.budget.multiple)


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
    with pytest.raises(SpecError, match="dimension: must be given, since no other key shows"):
        describe(free)


def test_what_no_decision_can_meet_is_named_beside_the_rest():
    double = SPEC[SPEC.index("[[constraints]]") : SPEC.index("[loss]")]
    start = "start = [5.0, 0.0]\nanchor = [-1.0, 1.0]\n"
    with pytest.raises(SpecError) as refused:
        describe(SPEC.replace("[loss]", double + "[loss]") + start)
    assert refused.value.lines == [
        "constraints: constraints must have different names, but got ['cap', 'cap']; choose others with `name=`",
        "method.start: must lie in the decision set, but got [5.0, 0.0]",
        "method.anchor: must lie in the decision set, but got [-1.0, 1.0]",
    ]
    with pytest.raises(SpecError) as refused:
        describe(SPEC.replace("bound = 4.0", "bound = -4.0") + start)
    assert [line.split(":")[0] for line in refused.value.lines] == ["method.start", "method.anchor", "constraints"]
    with pytest.raises(
        SpecError, match=re.escape("method.anchor: must satisfy every constraint strictly, but got [4.0, 4.0]")
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
    with pytest.raises(SpecError, match="is not valid TOML"):
        describe("a = " + "[" * 100_000)


def test_boxes_of_a_description_may_be_unbounded():
    text = """
        name = "s"
        [decisions]
        type = "box"
        lower = [0.0, -inf]
        upper = [inf, 1.0]
        [loss]
        type = "revenue"
        [method]
        type = "repeated_gradient"
    """
    box = describe(text).method.problem.decisions
    assert (box.lower.tolist(), box.upper.tolist()) == ([0.0, -np.inf], [np.inf, 1.0])
    with pytest.raises(ValueError, match=r"decisions.lower: must be a number, -inf or a list of them, but got \[inf"):
        describe(text.replace("lower = [0.0, -inf]", "lower = [inf, 0.0]"))


HISTORY = """
[history]
file = "past.csv"
decisions = ["p1", "p2"]
data = ["a", "b"]
count = "days"
"""
ROWS = "p1,p2,a,b,days\n1,1,5,4,7\n2,1,4,4,7\n1,2,5,3,5\n"


def test_a_description_may_give_past_deployments(tmp_path):
    (tmp_path / "past.csv").write_text(ROWS)
    described = describe(SPEC + HISTORY, tmp_path)
    past = described.method.history
    assert past.counts.tolist() == [7, 7, 5]
    assert past.means.tolist() == [[5, 4], [4, 4], [5, 3]]
    assert described.folder == str(tmp_path)
    assert describe(SPEC).folder is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('file = "past.csv"', 'file = "none.csv"', "history.file: must be a file beside the description, but "),
        ('file = "past.csv"\n', "", "history.file: must be given"),
        ('count = "days"', "count = 7", "history.count: must be a name, but got 7"),
        ('count = "days"', 'counts = "days"', "history.counts: unknown key (value 'days'); did you mean 'count'?"),
        ('data = ["a", "b"]', 'data = ["a", "c"]', "but ['c'] are not among ['p1', 'p2', 'a', 'b', 'days']"),
        ('["p1", "p2"]', '["p1"]', "history.decisions: must name 2 columns, one for each number of a decision, but got ['p1']"),
        ('data = ["a", "b"]', 'data = "a"', "history.data: `history` must hold samples that the loss accepts, but got 1"),
        ('type = "safe_apda"', 'type = "apda"', "history: only safe_apda learns from past deployments, but got method.type = '"),
        (HISTORY, "", "history: must be a table, but got 3"),
    ],
)  # fmt: skip
def test_a_history_that_makes_no_sense_is_refused(tmp_path, old, new, message):
    (tmp_path / "past.csv").write_text(ROWS)
    text = (SPEC + HISTORY).replace(old, new)
    with pytest.raises(SpecError, match=re.escape(message)):
        describe(text if new or "must be given" in message else "history = 3\n" + text, tmp_path)


def test_numbers_of_a_history_that_are_not_finite_are_named(tmp_path):
    (tmp_path / "past.csv").write_text(ROWS.replace("4,4,7", "4,,7"))
    with pytest.raises(SpecError, match=r"history: column 'b' of .*past.csv' must be finite, but got nan in row 1"):
        describe(SPEC + HISTORY, tmp_path)


def require_described_or_refused(text, folder):
    """A description stands for a method, or every line of its error says something."""
    with warnings.catch_warnings(action="ignore"):  # such as that a start breaks a constraint
        try:
            lines = [describe(text, folder).name]
        except SpecError as error:
            lines = error.lines
    assert lines
    assert all(line.strip() for line in lines)


@given(st.one_of(st.text(), st.lists(st.sampled_from([*SPEC.splitlines(), "[", "=", '"', "[[", "a.b"])).map("\n".join)))
@settings(max_examples=100, deadline=None)
def test_a_text_that_nobody_meant_is_refused_in_lines(text):
    require_described_or_refused(text, ".")


@given(text=descriptions())
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_a_description_that_nobody_meant_is_refused_in_lines(tmp_path, text):
    (tmp_path / "past.csv").write_text(ROWS)
    require_described_or_refused(text, tmp_path)


@pytest.mark.slow
@given(text=descriptions())
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_thousand_descriptions_that_nobody_meant(tmp_path, text):
    (tmp_path / "past.csv").write_text(ROWS)
    require_described_or_refused(text, tmp_path)
