"""Samples that cannot be right are held back, and hardly ever those that can."""

import numpy as np
import pandas as pd
import pytest
from market import PROBLEM

import performative as pf
from performative.study.doubts import doubts
from performative.study.memory import REPORTS, Remembered, digest
from performative.study.samples import Samples
from performative.study.sheet import Sheet

LABELS = pf.study.Labels.of(data=["milk", "bread"], data_units="kg")


class Shop:
    """Poisson sales whose means follow prices with an elasticity, weeks that are good or bad, and stores that differ."""

    def __init__(self, seed, *, n=None, room=2.0):
        self.random = random = np.random.default_rng(seed)
        d = int(random.integers(1, 6))
        self.elasticity = random.uniform(0.0, 0.4, (d, d))
        np.fill_diagonal(self.elasticity, -random.uniform(1.0, 4.0, d))
        self.base = np.exp(random.uniform(np.log(0.5), np.log(500.0), d))
        self.week, self.cell = random.choice([0.0, 0.05, 0.15, 0.3]), random.choice([0.1, 0.3, 0.6, 1.0])
        self.n = n or int(random.choice([1, 5, 20, 50]))
        self.today = np.exp(random.uniform(-1.0, 3.0, d))
        self.prices, self.room = self.today.copy(), room

    def sales(self):
        shared = self.week * self.random.normal(size=self.random.choice([1, len(self.base)]))
        means = self.base * np.exp(self.elasticity @ np.log(self.prices / self.today) + shared)
        noise = self.cell * self.random.normal(size=(self.n, len(means)))
        return self.random.poisson(means * np.exp(noise - self.cell**2 / 2)).astype(float)[None]

    def weeks(self, count):
        """Reports, while prices move by up to a fifth every week."""
        for week in range(count):
            yield week, self.prices[None], self.sales()
            moved = self.prices * np.exp(self.random.uniform(-0.2, 0.2, len(self.prices)))
            self.prices = np.clip(moved, self.today / self.room, self.today * self.room)


def after(seed, weeks, n=20):
    """A shop of large sales, which vary less than fivefold, and its reports so far."""
    shop = Shop(seed, n=n, room=1.2)
    shop.base, shop.cell, shop.week = np.maximum(shop.base, 40.0), min(shop.cell, 0.3), min(shop.week, 0.15)
    seen = [Remembered.of(week + 1, prices, sold, False) for week, prices, sold in shop.weeks(weeks)]
    return shop, seen


def why(shop, seen, sold):
    return doubts(seen, shop.prices[None], Samples(sold, None))


def test_at_most_one_in_a_thousand_reports_of_a_shop_is_held_back():
    """It was 2 of 15,600 with 300 seeds."""
    held = count = 0
    for seed in range(60):
        seen = []
        for week, prices, sold in Shop(seed).weeks(52):
            reasons = doubts(seen[-REPORTS:], prices, Samples(sold, None))
            seen.append(Remembered.of(week + 1, prices, sold, bool(reasons)))
            held, count = held + bool(reasons), count + 1
    assert count == 3120
    assert held <= 3


@pytest.mark.parametrize(
    "heavy", [lambda random: random.standard_t(3, size=(1, 20, 2)), lambda random: random.pareto(2.0, (1, 20, 2))]
)
def test_heavy_tails_raise_few_alarms(heavy):
    held, random = 0, np.random.default_rng(0)
    for _ in range(20):
        seen = []
        for week in range(40):
            sold = heavy(random)
            reasons = doubts(seen, np.ones((1, 1)), Samples(sold, None))
            seen.append(Remembered.of(week + 1, np.ones((1, 1)), sold, bool(reasons)))
            held += bool(reasons)
    assert held <= 4


@pytest.mark.parametrize("n", [1, 5, 20])
@pytest.mark.parametrize("weeks", [1, 4, 30])
def test_a_typo_of_billions_is_held_back_from_the_second_report_on(n, weeks):
    for seed in range(20):
        shop, seen = after(seed, weeks, n)
        sold = shop.sales()
        sold[0, n // 2, 0] = 3e9
        assert any("number 0: 3e+09" in reason or "number 0: the mean" in reason for reason in why(shop, seen, sold)), (
            seed
        )


def test_a_typo_in_the_first_report_is_seen_by_the_others_of_its_column():
    shop, _ = after(0, 0)
    sold = shop.sales()
    assert why(shop, [], sold) == ()
    sold[0, 3, 0] = 1e6
    (reason,) = why(shop, [], sold)
    assert reason.startswith("number 0: 1e+06 in sample 3 is ")
    assert "times the median of the column, " in reason


@pytest.mark.parametrize("factor", [10.0, 100.0, 1000.0, 0.1, 0.01, 0.001])
def test_other_units_are_named(factor):
    """After thirty reports, of a column or of all."""
    for seed in range(10):
        shop, seen = after(seed, 30)
        sold = shop.sales()
        sold[..., 0] *= factor
        times = f"about {factor:g} times" if factor > 1.0 else "about 1/"
        assert any(times in reason and "are the units others?" in reason for reason in why(shop, seen, sold)), seed


@pytest.mark.parametrize("weeks", [1, 3, 12])
def test_a_negative_number_of_pieces_is_held_back(weeks):
    shop, seen = after(0, weeks)
    sold = shop.sales()
    assert not why(shop, seen, sold)
    sold[0, 3, 0] = -1.0
    reasons = why(shop, seen, sold)
    assert len(reasons) == 1
    assert "-1 in sample 3 is negative, and none of" in reasons[0]
    assert all("is negative" in one for one in why(shop, seen, -shop.sales()))


def test_returns_may_be_negative_for_the_first_time():
    random = np.random.default_rng(0)
    past = np.abs(random.normal(0.05, 0.04, (1, 20, 1)))
    seen = [Remembered.of(1, np.ones((1, 1)), past, False)]
    now = random.normal(0.05, 0.04, (1, 20, 1))
    now[0, 0] = -0.03
    assert not doubts(seen, np.ones((1, 1)), Samples(now, None))


def test_a_column_that_stands_still_is_held_back_if_it_varied():
    shop, seen = after(1, 3)
    sold = shop.sales()
    sold[..., 0] = np.median(sold[..., 0])
    assert why(shop, seen, sold)[0] == f"number 0: all 20 numbers are {sold[0, 0, 0]:.6g}, though they varied before"
    still = [one._replace(rows=np.where(np.arange(one.rows.shape[2]) == 0, 7.0, one.rows)) for one in seen]
    sold[..., 0] = 7.0
    assert not any("varied" in reason for reason in why(shop, still, sold))


def test_few_numbers_may_all_be_the_same():
    shop, seen = after(1, 3, n=5)
    sold = shop.sales()
    sold[..., 0] = np.round(np.median([one.means[0, 0] for one in seen]))
    assert not any("varied" in reason for reason in why(shop, seen, sold))


def test_the_same_numbers_in_any_order_are_held_back():
    shop, seen = after(2, 12)
    again = shop.random.permutation(seen[3].rows, axis=1)
    assert why(shop, seen, again) == ("the same numbers were reported for deployment 4",)
    again[0, 0, 0] += 1.0
    assert not any("the same" in reason for reason in why(shop, seen, again))


def test_zeros_and_ones_may_come_again():
    """Labels of eight people: the same ones are no wonder."""
    decisions, labels = np.ones((1, 1)), np.array([[[0.0], [1.0], [0.0], [0.0], [1.0], [0.0], [1.0], [0.0]]])
    assert doubts([Remembered.of(1, decisions, labels, False)], decisions, Samples(labels, None)) == ()


def test_a_digest_is_of_rows_in_any_order():
    random = np.random.default_rng(0)
    samples = random.normal(size=(2, 9, 3))
    assert digest(samples) == digest(samples[::-1, ::-1])
    assert digest(samples) != digest(samples[..., ::-1])
    assert digest(np.zeros((1, 1, 2))) == digest(-np.zeros((1, 1, 2)))


def sold(seed, n=20):
    return np.random.default_rng(seed).poisson([40.0, 90.0], size=(1, n, 2)).astype(float)


def test_held_back_and_told_all_the_same(path):
    with pf.Study.create(path, "eu", pf.repeated_gradient(PROBLEM), labels=LABELS) as study:
        study.tell(study.ask(), sold(0))
        count = study.count
        wrong = sold(1)
        wrong[0, 4, 1] = 3e9
        with pytest.raises(
            pf.HeldBack, match=r"bread: 3e[+]09 in sample 4 is unlike the others: about 9.* was expected"
        ) as held:
            study.tell(study.ask(), wrong)
        assert study.count == count + 1  # asked, not told
        assert len(held.value.reasons) == 1
        sheet = Sheet(["milk", "bread"], wrong[0], "sales.csv", tuple(range(2, 22)))
        assert "in line 6 of sales.csv" in study.preview(study.ask(), sheet).doubts[0]
        study.tell(study.ask(), wrong, confirm=True)
        *_, last = study.events()
        assert last.confirmed == held.value.reasons
        study.tell(study.ask(), sold(2), confirm=True)  # nothing to confirm
        *_, last = study.events()
        assert last.confirmed == ()
        with pytest.raises(pf.HeldBack, match="the same numbers were reported for deployment 1"):
            study.tell(study.ask(), sold(0))
        assert study.verify().told == 3


def test_another_process_remembers_the_same(path):
    """What is compared with comes from the log: a study that is opened again holds back what one that was never closed does."""
    with pf.Study.create(path, "eu", pf.repeated_gradient(PROBLEM), labels=LABELS) as study:
        for seed in range(5):
            study.tell(study.ask(), sold(seed))
            study.note("a week")
        wrong = sold(9) * [10.0, 1.0]
        here = study.preview(study.ask(), wrong)
        with pf.Study.open(path, "eu", pf.repeated_gradient(PROBLEM)) as again:
            there = again.preview(again.ask(), wrong)
            assert here == there
            assert "milk: the mean is" in there.doubts[0]
            again.tell(again.ask(), sold(5))
        with pytest.raises(pf.HeldBack, match="the same numbers"):
            study.tell(study.ask(), sold(5))


def test_what_was_retracted_is_forgotten_and_what_was_deployed_remembered(path):
    rows = np.random.default_rng(0).normal(4.0, 0.5, (2, 1, 20, 2))
    method = pf.repeated_gradient(PROBLEM)
    with pf.Study.create(path, "eu", method) as study, pf.Study.open(path, "eu", method) as other:
        first = study.ask()
        study.tell(first, rows[0], deployed=[1.25, 1.5])
        second = study.ask()
        for one in (study, other):
            with pytest.raises(pf.HeldBack, match=f"the same numbers were reported for deployment {first.id}"):
                one.tell(second, rows[0])
            assert [report.decisions.tolist() for report in one._session.memory.reports] == [[[1.25, 1.5]]]
        study.retract(first, "of another week")
        assert other.preview(second, rows[0]).doubts == ()
        study.tell(second, rows[0])
        for one in (study, other):  # a deployment that was reported before can be doubted, too
            doubts = one.preview(first, rows[0]).doubts
            assert doubts == (f"the same numbers were reported for deployment {second.id}",)
        other.tell(first, rows[1])
        assert study.preview(study.ask(), rows[1]).doubts == (
            f"the same numbers were reported for deployment {first.id}",
        )
        assert study.verify().told == 2


def test_a_preview_shows_what_was_read_beside_the_last_report(path):
    with pf.Study.create(path, "eu", pf.repeated_gradient(PROBLEM), labels=LABELS) as study:
        study.tell(study.ask(), sold(0))
        deployment = study.ask()
        frame = pd.DataFrame(sold(1)[0], columns=["milk", "bread"])[["bread", "milk"]]
        seen = study.preview(deployment, frame)
        milk, bread = seen.columns
        assert (milk.name, milk.unit, bread.name) == ("milk", "kg", "bread")
        assert (milk.least, milk.greatest) == (frame["milk"].min(), frame["milk"].max())
        assert milk.mean == pytest.approx(frame["milk"].mean())
        assert milk.last == pytest.approx(sold(0)[0, :, 0].mean())
        lines = str(seen).splitlines()
        assert lines[0] == f"20 samples for deployment {deployment.id}"
        assert lines[1].split() == ["column", "unit", "least", "mean", "greatest", "last", "time"]
        assert lines[2].split()[:3] == ["milk", "kg", f"{milk.least:g}"]
        assert seen.doubts == ()
