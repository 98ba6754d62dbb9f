"""Amendments: the study goes on with another method that was told everything, to the bit, and the log says so."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from described import SPEC
from market import PROBLEM, answer, kinds, market_problem, run, stored

import performative as pf
from performative.study import Amended, OtherMethod, StudyError, creation
from performative.study.spec import describe


def dearer(prices, demand):
    return -jnp.sum((prices - 0.5) * demand)


def floored():
    """Another loss, another cap and one more constraint."""
    limits = [
        pf.constraints.Linear([1.0, 1.0], 3.0, name="cap"),
        pf.constraints.Linear([-1.0, 0.0], -0.25, name="floor"),
    ]
    return pf.Problem(dearer, pf.Box([0.0, 0.0], [5.0, 5.0]), limits)


NEW = {
    "cost": lambda: pf.repeated_gradient(market_problem(loss=dearer)),
    "constraints": lambda: pf.repeated_gradient(floored(), start=[1.0, 1.0]),
    "safe": lambda: pf.safe_apda(floored(), start=[1.0, 1.0]),
}


def told_alone(path, name, method, rounds):
    """A study that had only these reports, whatever it asked for."""
    study = pf.Study.create(path, name, method)
    for decisions, samples in rounds:
        study.tell(study.ask(), samples, deployed=decisions)
    return study


def same(study, other):
    """Whether two studies stand at the same bits and ask for the same."""
    assert study._session.log.store.state == other._session.log.store.state
    mine, theirs = (one._session.position.planned for one in (study, other))
    assert mine.decisions.tobytes() == theirs.decisions.tobytes()
    assert mine.round == theirs.round


@pytest.mark.parametrize("name", NEW)
def test_an_amended_study_stands_where_one_of_the_new_method_would(study, path, name):
    """Before and after it, with a report that was retracted, decisions that were rounded and a deployment that is open."""
    old = study.method
    run(study, 4)
    first = study.ask()
    study.tell(first, answer(first), deployed=[1.25, 1.5])
    study.retract(3, "a typo")
    waiting = study.ask()
    study.amend(NEW[name](), "costs rise", by="Ada")
    past = study.history()
    rounds = [(past["deployed"].values[i], study._session.log.event(n).samples) for i, n in enumerate((2, 6, 8))]
    with told_alone(path, "other", NEW[name](), rounds) as other:
        same(study, other)
        assert study.ask().id == waiting.id
        assert study.ask().why.safety.shape == (1, len(study.constraint_names))
        study.tell(waiting, answer(waiting))
        other.tell(other.ask(), answer(waiting), deployed=waiting.decisions)
        same(study, other)
        study.retract(1, "another typo")
        with told_alone(path, "third", NEW[name](), [*rounds[1:], (waiting.decisions, answer(waiting))]) as third:
            same(study, third)
    replay = study.verify()
    assert replay.told == 3
    assert replay.unreplayed == 11
    assert replay.because == ("events 0 to 10: the method was given as an object, which is not in the file",)
    event = next(event for event in study.events() if isinstance(event, Amended))
    assert (event.reason, event.by, event.before) == ("costs rise", "Ada", 0)
    with pytest.raises(OtherMethod):
        pf.Study.open(path, "eu", old)
    with pf.Study.open(path, "eu", NEW[name]()) as again:
        told = run(again, 6).verify().told
        assert told == 5 + (name == "safe")  # whose first round is 0
        again.amend(old, "costs fall again")
        assert again.verify().told == told
    assert kinds(path).count("amend") == 2


def test_constraints_are_counted_while_they_are_there(study):
    study.tell(study.ask(), answer(study.ask()), deployed=[4.0, 1.0])  # 1 above the cap
    study.amend(pf.repeated_gradient(floored(), start=[1.0, 1.0]), "a floor")
    so_far = study._session.position.so_far
    assert so_far.violated.tolist() == [1, 0]
    assert so_far.least.tolist() == [-1.0, np.inf]
    study.tell(study.ask(), answer(study.ask()), deployed=[0.0, 1.0])  # 0.25 below the floor
    past = study.history()
    assert past["constraint"].values.tolist() == ["cap", "floor"]
    np.testing.assert_array_equal(past["slack"].values[:, 0], [[-1.0, np.nan], [2.0, -0.25]])
    np.testing.assert_array_equal(past["multipliers"].values[0], [0.0, np.nan])
    assert [row["slack floor"] for row in study.records()] == [pytest.approx(np.nan, nan_ok=True), -0.25]
    status = study.status()
    assert "constraint floor was violated by 1 of 2 deployments, most by deployment 4: 0.25" in status.warnings
    assert "deployed with slack -0.25 last, -0.25 at worst" in status.theory()
    study.amend(pf.repeated_gradient(market_problem(bound=2.0)), "no floor, another cap")
    past = study.history()
    assert past["constraint"].values.tolist() == ["cap", "floor"]
    assert study._session.position.so_far.violated.tolist() == [1]
    assert len(study.plot().axes) == 2 + 4
    study.verify()


def test_what_changes_is_shown_before_and_nothing_is_written(study, path):
    run(study, 3)
    before = stored(path)
    shown = study.amendment(pf.repeated_gradient(market_problem(loss=dearer, bound=3.0), step=0.01))
    assert shown.differences == [
        "constraints[0].bound: [4.0] -> [3.0]",
        "method.step: 0.005 -> 0.01",
        "the loss returns other numbers",
        "the constraints return other numbers",
    ]
    assert np.array_equal(shown.before, study._session.position.planned.decisions)
    assert str(shown).splitlines()[-1].startswith("next decision: [")
    assert stored(path) == before
    study.amend(pf.repeated_gradient(market_problem(loss=dearer, bound=3.0), step=0.01), "costs rise")
    assert np.array_equal(study._session.position.planned.decisions, shown.after)


def test_what_does_not_fit_is_refused_before_anything_is_written(path):
    with pf.Study.create(path, "eu", pf.repeated_gradient(PROBLEM)) as study:
        run(study, 2)
        study.ask()
        before = stored(path)
        three = pf.Problem(lambda theta, z: -jnp.sum(theta) * z[0], pf.Box(np.zeros(3), np.ones(3)))
        effect = pf.repeated_gradient(
            pf.Problem(lambda theta, z: -jnp.sum(theta @ jnp.reshape(z, (2, 2))), PROBLEM.decisions)
        )
        for other, message in (
            (pf.repeated_gradient(three), "a decision must have 2 numbers as before, but got 3"),
            (pf.repeated_gradient(PROBLEM), "an amendment must change something"),
            (effect, "`loss` must take a decision"),
            (pf.two_point(PROBLEM), "cannot be told to the method: deployment 1: `decisions` must be"),
            (SPEC, "`seed` must be that of the study, 0, but the description has 3"),
            (SPEC.replace('"eu"', '"us"'), "`name` must be that of the study, 'eu', but the description has 'us'"),
            ("name =", "not valid TOML"),
            (
                SPEC.replace("samples = 5", "start = [3.0, 2.0]"),
                r"method\.start: must satisfy every constraint, but got \[3\.0, 2\.0\], which breaks cap.*so put one there",
            ),
        ):
            with pytest.raises(ValueError, match=message):
                study.amend(other, "why not")
        with pytest.raises(ValueError, match="`reason` must be a nonempty string, why the method changes"):
            study.amend(pf.repeated_gradient(PROBLEM, step=0.1), "")
        with pytest.raises(TypeError, match="`other` must be a method such as"):
            study.amend(5, "why not")
        assert stored(path) == before
    with pf.Study.create(path, "us", pf.repeated_gradient(PROBLEM)) as study:
        study.ask()
        with pytest.raises(
            ValueError, match="asks for 2 decisions at once and could not learn from the 1 of deployment 1"
        ):
            study.amend(pf.two_point(PROBLEM), "why not")
        study.cancel(1, "closed")
        study.amend(pf.two_point(PROBLEM), "why not")
        assert len(study.ask().decisions) == 2


def test_described_stretches_are_replayed_and_others_open_them_without_a_method(path, tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC.replace('"safe_apda"', '"repeated_gradient"'))
    changed = SPEC.replace('"safe_apda"', '"repeated_gradient"').replace("bound = 4.0", "bound = 3.0")
    (tmp_path / "new.toml").write_text(changed.replace('type = "revenue"', 'type = "revenue"\ncost = [0.5, 0.25]'))
    with pf.Study.from_spec(path, tmp_path / "spec.toml") as study, pf.Study.open(path, "eu") as other:
        run(study, 3)
        run(other, 4)
        assert study.amendment(tmp_path / "new.toml").differences == [
            "constraints[0].bound: 4.0 -> 3.0",
            "loss.cost: nothing -> [0.5, 0.25]",
        ]
        study.amend(tmp_path / "new.toml", "costs and a cap")
        assert "cost = [0.5, 0.25]" in study.spec
        run(other, 6)  # with the new method, though it was opened before
        assert other.spec == study.spec
        with pytest.raises(ValueError, match="an amendment must change something"):
            study.amend(changed.replace('type = "revenue"', 'type = "revenue"\ncost = [0.5, 0.25] # the same'), "again")
        assert run(study, 7).verify() == (15, 6, 0, ())


def test_why_a_stretch_is_not_replayed_is_said(path, monkeypatch):
    spec = SPEC.replace('"safe_apda"', '"repeated_gradient"')
    made = creation._made
    with pf.Study.create(path, "eu", describe(spec).method, seed=3, spec=spec) as study:
        run(study, 2)
        study.amend(spec.replace("bound = 4.0", "bound = 3.0"), "a cap")

        def gone(basis):
            if basis.number == 0:
                raise OSError("past.csv is gone\nfrom the folder")
            return made(basis)

        monkeypatch.setattr(creation, "_made", gone)
        replay = run(study, 3).verify()
    assert replay.unreplayed == 4
    said = "the description no longer stands for the same method (OSError): past.csv is gone; from the folder"
    assert replay.because == (f"events 0 to 3: {said}",)


def test_names_outlast_an_amendment_unless_a_description_gives_others(path):
    named = pf.study.Labels.of(["milk", "bread"], decision_units="EUR")
    with pf.Study.create(path, "eu", pf.repeated_gradient(PROBLEM), seed=3, labels=named) as study:
        deployment = study.ask()
        frame = pd.DataFrame(answer(deployment)[0], columns=["milk", "bread"])
        study.tell(deployment, frame, in_order=True)
        study.amend(pf.repeated_gradient(market_problem(loss=dearer)), "costs rise")
        assert study.labels == named._replace(data=("milk", "bread"))
        deployment = study.ask()
        study.tell(deployment, pd.DataFrame(answer(deployment)[0], columns=["milk", "bread"])[["bread", "milk"]])
        *_, last = study.events()
        np.testing.assert_array_equal(last.samples, answer(deployment))
        upper = "upper = [4.0, 4.0]"
        for key, columns in (("decisions", f'{upper}\ncolumns = ["bread", "milk"]'), ("data", upper)):
            text = SPEC.replace(upper, columns) + ('[data]\ncolumns = ["bread", "milk"]\n' if key == "data" else "")
            with pytest.raises(ValueError, match=rf"`{key}` must be in the order of the study, \['milk', 'bread'\]"):
                study.amendment(text)
        text = SPEC.replace(upper, f'{upper}\ncolumns = ["Milch", "Brot"]')
        shown = study.amendment(text).differences
        assert "labels.decisions: ['milk', 'bread'] -> ['Milch', 'Brot']" in shown
        assert "labels.decision_units: ['EUR', 'EUR'] -> nothing" in shown
        study.amend(text, "another country")
        assert study.labels == pf.study.Labels.of(["Milch", "Brot"], ["milk", "bread"])
    with pf.Study.open(path, "eu", readonly=True) as again:
        assert again.labels.decisions == ("Milch", "Brot")
        assert "theta_Milch" in next(again.records())


def test_who_holds_the_old_method_is_told(study, path):
    with pf.Study.open(path, "eu", study.method) as other:
        run(other, 2)
        study.amend(NEW["cost"](), "costs rise")
        deployment = other.ask()
        with pytest.raises(StudyError, match="pass `method`: study 'eu' was not amended to a description"):
            other.tell(deployment, answer(deployment))
    with pf.Study.open(path, "eu", NEW["cost"]()) as again:
        run(again, 3)
        assert again.verify().told == 2


def test_limits_outlast_an_amendment_or_it_is_refused(path):
    method = pf.repeated_gradient(PROBLEM, start=[2.5, 1.0])
    with pf.Study.create(path, "eu", method, approval=True) as study:
        study.decline(study.ask(), "too dear", upper={0: 2.0})
        proposal = study.ask()
        study.amend(pf.repeated_gradient(market_problem(loss=dearer), start=[2.5, 1.0]), "costs rise")
        assert study.pending is None  # nobody had answered it
        assert study.limits.upper.tolist() == [2.0, np.inf]
        assert study.ask().id > proposal.id
        assert study.ask().decisions[0, 0] <= 2.0
        free = pf.Problem(PROBLEM.loss, pf.Box([3.0, 0.0], [5.0, 5.0]))
        before = stored(path)
        with pytest.raises(ValueError, match="`lower` and `upper` must leave decisions"):
            study.amend(pf.repeated_gradient(free), "dear ones only")
        assert stored(path) == before
        shown = study.amendment(pf.repeated_gradient(PROBLEM, start=[2.5, 1.0]), approval=False)
        assert shown.differences[0] == "approval: True -> False"
        study.amend(pf.repeated_gradient(PROBLEM, start=[2.5, 1.0]), "nobody has time", approval=False)
        assert study.ask().approved
        study.verify()


SEASON = {
    "ask": lambda study: study.ask(),
    "decline": lambda study: study.decline(study.pending, "too dear", upper={0: 1.5}, by="Ada"),
    "ask again": lambda study: study.ask(),
    "approve": lambda study: study.approve(study.pending, [1.0, 1.0], by="Ada"),
    "tell": lambda study: study.tell(study.pending, answer(study.pending)),
    "third": lambda study: study.approve(study.ask(), by="Ada"),
    "tell rounded": lambda study: study.tell(study.pending, answer(study.pending), deployed=[1.25, 0.75]),
    "open": lambda study: study.approve(study.ask(), by="Ada"),
    "retract": lambda study: study.retract(3, "a typo", by="Ada"),
    "amend": lambda study: study.amend(NEW["constraints"](), "a floor", by="Ada"),
    "tell the open one": lambda study: study.tell(study.pending, answer(study.pending)),
    "tell anew": lambda study: study.tell(3, answer(study.deployment(3))),
    "cancel": lambda study: study.cancel(study.approve(study.ask(), by="Ada"), "closed"),
    "last": lambda study: study.ask(),
}


def test_closed_after_every_correction_or_never_the_bits_are_the_same(path):
    """And what each process holds in memory is what another one reads."""
    methods = [pf.one_point(PROBLEM, start=[1.0, 1.0]), NEW["constraints"]()]
    with pf.Study.create(path, "never", methods[0], approval=True) as never:
        for name, step in SEASON.items():
            if name == "amend":
                with pf.Study.open(path, "never", methods[0], readonly=True) as reader:
                    assert reader.limits.upper[0] == 1.5
            step(never)
        pf.Study.create(path, "always", methods[0], approval=True).close()
        for name, step in SEASON.items():
            if name == "amend":
                current = methods.pop(0)
            with pf.Study.open(path, "always", current if name == "amend" else methods[0]) as study:
                step(study)
        with pf.Study.open(path, "always", methods[0]) as always:
            ours, theirs = (one._session.position for one in (never, always))
            same(never, always)
            np.testing.assert_equal(
                ours._replace(planned=None, so_far=None), theirs._replace(planned=None, so_far=None)
            )
            assert always.verify() == never.verify()
            assert [event.kind for event in always.events()] == [event.kind for event in never.events()]
