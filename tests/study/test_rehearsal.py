"""Rehearsals: what is shown is what playing by hand gives, staying costs nothing, reactions hurt, and no file is touched."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from described import SPEC
from descriptions import KINDS
from hypothesis import given, settings
from hypothesis import strategies as st
from market import PROBLEM, answer, market_problem, run, stored

import performative as pf
from performative import losses
from performative.errors import SpecError
from performative.numerics.precision import precise
from performative.numerics.randomness import new_key
from performative.study.likeness import ANY, LABEL, POSITIVE, SHARE, Expected, Likeness, fitting, likely, noise_of
from performative.study.pretended import SOME_WAY, World, risks, worlds
from performative.study.rehearsal import MOST_ROWS, WIDTH
from performative.study.spec import describe

REVENUE = losses.Revenue([0.5, 0.5])


def shop(loss=REVENUE, start=(1.0, 1.5), **options):
    return pf.repeated_gradient(market_problem(loss=loss), start=start, step=0.01, **options)


def flat(rehearsal):
    """What is printed, without line breaks."""
    return " ".join(str(rehearsal).split())


def with_method(method, loss='type = "revenue"'):
    return SPEC[: SPEC.index("[method]")].replace('type = "revenue"', loss) + f"[method]\n{method}\n"


def test_a_method_that_stays_neither_moves_nor_costs_anything():
    rehearsal = pf.study.rehearse(pf.stay(market_problem(loss=REVENUE), start=[1.0, 1.5]), mean=[40.0, 30.0])
    for performance in rehearsal.performances:
        assert rehearsal.largest_step(performance) is None
        assert performance.excess.tolist() == [0.0] * 20
        assert (performance.total, performance.deepest, performance.touched) == (0.0, 0.0, {})
    text = str(rehearsal)
    assert text.count("  nothing moves\n  against staying: the same in all\n  constraints: none is touched") == 3


def test_what_is_printed_is_what_playing_by_hand_gives():
    method, problem = shop(samples=3), market_problem(loss=REVENUE)
    start, mean = np.array([1.0, 1.5]), np.array([40.0, 30.0])
    rehearsal = pf.study.rehearse(method, mean=mean, spread=5.0, seed=4)
    for performance, strength in zip(rehearsal.performances, (0.0, 0.5, 3.0), strict=True):
        # Prices range over 1.5 times the start; sales fall with their own price by a factor that is exponential in it.
        rate = strength / (1.5 * start)
        sizes = np.sqrt(np.log1p((5.0 / mean) ** 2))

        def sold(prices, noise, rate=rate, sizes=sizes):
            return mean * np.exp(-rate * (prices - start)) * np.exp(sizes * noise - 0.5 * sizes**2)

        state, likely_noise = method.init(new_key(0)), noise_of(2)
        with precise():
            staying = np.mean([float(problem.loss(jnp.asarray(start), z)) for z in sold(start, likely_noise)])
        decisions, excess = [], []
        for t in range(1, 21):
            with precise():
                prices = np.asarray(method.ask(state, jax.random.fold_in(new_key(0), t)))
            noise = np.random.default_rng([t]).normal(size=(1, 3, 2))
            state = method.tell(state, prices, sold(prices[0], noise[0])[None])
            there = -np.mean(np.sum((prices[0] - 0.5) * sold(prices[0], likely_noise), axis=1))
            decisions.append(prices[0])
            excess.append(there - staying)
        np.testing.assert_allclose(np.concatenate(performance.decisions), decisions, rtol=1e-9)
        np.testing.assert_allclose(performance.excess, excess, rtol=1e-9, atol=1e-9 * abs(staying))
        np.testing.assert_allclose(
            np.concatenate(performance.constraint_values)[:, 0], np.sum(decisions, axis=1) - 4.0, atol=1e-9
        )
        block = str(rehearsal).split(f"reaction {performance.reaction}: ")[1].split("\n\n")[0]
        rows = {words[1]: words[2:] for line in block.splitlines() if (words := line.split())[0] == "number"}
        for place in range(2):
            assert rows[str(place)] == [f"{decisions[t - 1][place]:.4g}" for t in (1, 2, 3, 5, 10, 20)]
        total = sum(excess)
        assert f"against staying: {abs(total):.4g} {'worse' if total > 0 else 'better'} in all" in block
        steps = np.abs(np.diff([start, *decisions], axis=0)) / (1.5 * start)
        t, place = np.unravel_index(np.argmax(steps), steps.shape)
        step = rehearsal.largest_step(performance)
        assert (step.deployment, step.place) == (t + 1, place)
        assert f"{step.before:.4g} to {step.after:.4g}" in " ".join(block.split())
    assert rehearsal.loss == pytest.approx(staying)
    assert rehearsal.samples == (3,) * 20


def test_a_rehearsal_is_the_same_every_time_and_begins_as_the_study_does(path):
    text = with_method('type = "one_point"\nexploration = 0.2\nstart = [1.0, 1.5]')
    rehearsal = pf.study.rehearse(text)
    assert str(rehearsal) == str(pf.study.rehearse(text))
    with pf.Study.of_described(path, describe(text)) as study:
        first = study.ask().decisions
    for performance in rehearsal.performances:
        np.testing.assert_array_equal(performance.decisions[0], first)
    assert not np.array_equal(pf.study.rehearse(text, seed=9).performances[0].decisions[0], first)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.slow) if kind in ("safe_apda", "apda", "two_stage") else kind
        for kind in KINDS
    ],
)
def test_every_method_that_can_be_described_rehearses(kind):
    rehearsal = pf.study.rehearse(with_method(f'type = "{kind}"\nstart = [1.0, 1.5]'))
    np.testing.assert_array_equal(rehearsal.today, [1.0, 1.5])
    assert [len(performance.decisions) for performance in rehearsal.performances] == [20, 20, 20]
    assert all(np.isfinite(performance.excess).all() for performance in rehearsal.performances)
    assert ("budget: " in str(rehearsal)) == (kind == "safe_apda")
    if kind in ("apda", "pd_ps"):
        assert rehearsal.samples == (1000,) + (1,) * 19
        assert "(the first of 2 decisions that are deployed side by side)" in str(rehearsal)


LOSSES = {
    "revenue": REVENUE,
    "squared error": losses.SquaredError(0.1),
    "logistic": losses.Logistic(0.1),
    "pinball": losses.Pinball(0.9, 0.1),
    "portfolio": losses.PortfolioReturn(1.0),
    "of large data": lambda theta, z: -jnp.sum(theta * jnp.sqrt(z - 5.0)),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("start", [[1.0, 1.5], [0.0, 0.0]])
def test_reactions_hurt_whoever_goes_the_way_that_paid(name, start):
    """Half a range down the loss, every decision is worse the stronger the reaction; at the start it makes no difference."""
    problem, start = pf.Problem(LOSSES[name], pf.Box([0.0, 0.0], [5.0, 5.0])), np.array(start)
    like = fitting(problem, start, likely(problem, start, None, None, None))
    made, widths = worlds(problem, start, like)
    with precise():
        down = -np.sign(np.array(jax.grad(lambda theta: _risk(problem, theta, like))(jnp.asarray(start))))
    farther = np.clip(start + SOME_WAY * widths * down, 0.0, 5.0)
    there = [risks(problem, world, np.stack([start, farther])) for world in made.values()]
    assert len({float(one[0]) for one in there}) == 1
    if name != "pinball":  # whose way down is where it is least; data may leave either way
        assert there[0][1] <= there[1][1] <= there[2][1]
    assert there[2][1] > there[0][1] or np.array_equal(farther, start)


def _risk(problem, theta, like):
    samples = like.sample(like.mean, noise_of(len(like.mean)))
    return jnp.mean(jax.vmap(problem.loss, (None, 0))(jnp.asarray(theta), samples))


@settings(max_examples=30)
@given(
    st.sampled_from([ANY, POSITIVE, SHARE, LABEL]),
    st.floats(0.01, 0.99),
    st.floats(0.0, 2.0),
    st.floats(-50.0, 50.0),
    st.floats(-3.0, 3.0),
)
def test_data_keep_their_kind_and_their_mean_at_the_start(kind, mean, spread, rate, step):
    like = Likeness(np.array([mean]), np.array([spread]), (kind,), "assumed")
    world = World(like, np.zeros(1), np.array([[rate]]))
    np.testing.assert_allclose(world.mean(np.zeros(1)), [mean])
    noise = noise_of(1)
    drawn = world.sample(np.array([step]), noise)
    assert drawn.shape == noise.shape
    assert np.isfinite(drawn).all()
    moved = world.mean(np.array([step]))[0] - mean
    assert moved * rate * step >= 0.0 or abs(moved) <= 1e-12
    if kind == POSITIVE:
        assert (drawn > 0).all()
    if kind == SHARE:
        assert ((drawn > 0) & (drawn < 1)).all()
    if kind == LABEL:
        assert set(np.unique(drawn)) <= {0.0, 1.0}


def test_data_are_like_those_of_a_history():
    sold = [[8.0, 1.0], [6.0, 0.0], [4.0, 1.0], [2.0, 1.0]]
    past = pf.Past.of(decisions=[[1.0, 1.5], [1.0, 1.5], [1.0, 3.0], [1.0, 3.0]], samples=sold)
    problem = market_problem(loss=REVENUE)
    like = fitting(problem, np.array([1.0, 1.4]), likely(problem, np.array([1.0, 1.4]), None, past, None))
    assert like.mean.tolist() == [7.0, 0.5]
    np.testing.assert_allclose(like.spread, np.sqrt([(1 + 1 + 1 + 1) / 2, (0.25 + 0.25) / 2]))
    assert like.kinds == (POSITIVE, LABEL)
    assert like.source == "as in the history"


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("mean = 4.0\nspread = [-1.0, 1.0]", "rehearsal.spread: must be a number >= 0 or a list of them, but got [-1.0, 1.0]"),
        ("spread = 3.0", "rehearsal.mean: must be given"),
        ("mean = [1.0, 2.0]\nspread = [1.0]", "rehearsal: `spread` must be one number or as many as `mean`, 2, but got [1.0]"),
        ("mean = [1.0, 2.0, 3.0]", "rehearsal.mean: `loss` must take a decision of shape (2,) and one sample of shape (3,)"),
        ("mean = 1.0\nspraed = 1.0", "rehearsal.spraed: unknown key (value 1.0); did you mean 'spread'?"),
        ("mean = nan", "rehearsal.mean: must be a finite number or a list of them, but got nan"),
    ],
)  # fmt: skip
def test_what_a_description_says_of_data_is_checked(table, line):
    with pytest.raises(SpecError) as refused:
        describe(f"{SPEC}\n[rehearsal]\n{table}\n")
    assert len(refused.value.lines) == 1
    assert refused.value.lines[0].startswith(line)


def test_what_a_description_says_of_data_is_what_is_played(tmp_path):
    table = "\n[rehearsal]\nmean = [40.0, 0.0]\nspread = 2.0\n"
    described = describe(with_method('type = "repeated_gradient"') + table)
    assert described.expected.mean.tolist() == [40.0, 0.0]
    path = tmp_path / "spec.toml"
    path.write_text(described.text)
    rehearsal = pf.study.rehearse(path)
    assert str(rehearsal) == str(pf.study.rehearse(described.text))
    assert "data there: number 0 40 ± 2, number 1 0 ± 2 (as described); samples a deployment: 1" in flat(rehearsal)
    assert "[rehearsal]" not in str(rehearsal)
    assert "data there: 9 ± 1 for each number (as described)" in str(
        pf.study.rehearse(described.text, mean=9.0, spread=1.0)
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mean": np.nan}, "`mean` must be finite"),
        ({"spread": 1.0}, "`spread` must come with `mean`, but got 1.0 alone"),
        ({"mean": [1.0, 2.0, 3.0]}, "one sample of shape (3,)"),
        ({"mean": 1.0, "spread": -1.0}, "`spread >= 0` must hold, but got -1.0"),
    ],
)
def test_what_is_said_of_data_in_python_is_checked(given, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        pf.study.rehearse(shop(), **given)


def test_failures_are_told_with_the_reaction_the_rule_and_the_value():
    def until_three(prices, sold):
        return -jnp.sum(prices * sold) * jnp.sqrt(3.0 - prices[0])

    with pytest.raises(
        ValueError,
        match=r"rehearsal, reaction none: `loss` must be finite, but its mean is nan at \[.*\], deployment \d+, over data of the "
        r"means \[.*\]; if data are not like that, \[rehearsal\]",
    ):
        pf.study.rehearse(pf.one_point(market_problem(loss=until_three, bound=9.0), start=[2.9, 2.9], exploration=0.2))

    def never(prices, sold):
        return jnp.sum(prices * sold) * jnp.nan

    with pytest.raises(ValueError, match=r"`loss` must be finite, but is nan at \[1.0, 1.5\] for data of the means"):
        pf.study.rehearse(shop(loss=never))


def test_more_samples_than_are_drawn_are_wanted():
    rehearsal = pf.study.rehearse(shop(samples=1_000_000), mean=40.0)
    assert rehearsal.samples == (10_000,) * 20
    assert "samples a deployment: 10000 of the 1000000 that are wanted" in flat(rehearsal)


@pytest.mark.parametrize("count", [1, 3, 20])
def test_lines_are_short_whatever_the_number_of_products(count):
    names = [f"a rather long name of product {place}" for place in range(count)]
    labels = pf.study.Labels.of(decisions=names, data=names, decision_units="EUR", data_units="pieces")
    limits = [pf.constraints.Linear(np.ones(count), 2.5 * count, name="the mean of all prices")]
    start = np.linspace(1.0, 2.0, count)
    method = pf.repeated_gradient(
        pf.Problem(losses.Revenue(), pf.Box(np.zeros(count), np.full(count, 5.0)), limits), start=start
    )
    rehearsal = pf.study.rehearse(method, mean=np.linspace(3.0, 900.0, count), labels=labels)
    lines = str(rehearsal).splitlines()
    assert max(map(len, lines)) <= WIDTH
    rows = [line for line in lines if line.startswith("  a rather")]
    assert len(rows) == 3 * min(count, MOST_ROWS)
    more = [line for line in lines if "more, which go no farther than" in line]
    assert len(more) == (3 if count > MOST_ROWS else 0)
    assert all(line.startswith(f"  and {count - MOST_ROWS} more") for line in more)


def test_an_amendment_is_rehearsed_from_where_the_study_stands(study, path):
    run(study, 4)
    before, planned = stored(path), study._session.position.planned.decisions
    other = shop(loss=losses.Revenue(0.7))
    shown = study.amendment(other, rehearse=True)
    assert stored(path) == before
    np.testing.assert_array_equal(study._session.position.planned.decisions, planned)
    plain = study.amendment(other)
    assert plain.rehearsal is None
    assert str(shown) == f"{plain}\n\n{shown.rehearsal}"
    last = study.history()["deployed"].values[-1, 0]
    np.testing.assert_array_equal(shown.rehearsal.today, last)
    assert shown.rehearsal.stays == "what was deployed last"
    assert "(as in the last report)" in flat(shown)
    for performance in shown.rehearsal.performances:
        np.testing.assert_array_equal(performance.decisions[0], shown.after)


def test_the_rehearsal_of_an_amendment_keeps_to_the_bounds_that_people_gave(path):
    with pf.Study.create(path, "eu", shop(), approval=True) as study:
        proposal = study.ask()
        study.approve(proposal)
        study.tell(proposal, answer(proposal))
        study.decline(study.ask(), "too dear", upper={0: 1.02})
        rehearsal = study.amendment(shop(loss=losses.Revenue(0.7)), rehearse=True).rehearsal
    assert max(np.max(np.concatenate(one.decisions)[:, 0]) for one in rehearsal.performances) <= 1.02


def test_an_amendment_before_any_report_is_rehearsed_from_the_start(study):
    rehearsal = study.amendment(pf.stay(PROBLEM, start=[1.0, 1.0]), rehearse=True).rehearsal
    assert (rehearsal.stays, rehearsal.today.tolist()) == ("the start", [1.0, 1.0])


def test_expected_sizes_are_one_number_or_one_for_each():
    with pytest.raises(
        ValueError, match=r"`spread` must be one number or as many as `mean`, 2, but got \[1.0, 2.0, 3.0\]"
    ):
        Expected.of([1.0, 2.0], [1.0, 2.0, 3.0])
