"""Why, in the words of the people who deploy: names of products, amounts with their unit, and no word of the theory."""

import numpy as np
import pytest

from performative.reasons import Plan
from performative.study import Labels
from performative.study.because import explanation

LABELS = Labels.of(["milk", "bread"], decision_units="EUR", show="profit", unit="EUR", period="week")
WEEKLY = LABELS.outcome(1)
AT_BEST = Plan(
    round=4, decision=np.array([2.0, 3.0]), planned=np.array([[2.0, 3.0]]), decisions=np.array([[2.0, 3.0]]),
    deployed=np.array([[2.0, 3.0]]), repeats=0, gain=1.5, price=0.0, worth=0.0, wide=False, radius=0.2, limited=False,
    held=False, allowed=np.inf, spent=0.0, max_move=None, widths=np.array([5.0, 5.0]), multipliers=np.array([0.0]),
    tight=np.array([False]), at_lower=np.zeros(2, bool), at_upper=np.zeros(2, bool),
)  # fmt: skip
TRYING = {"planned": np.array([[2.1, 3.0]]), "decisions": np.array([[2.1, 3.0]])}


def said(**changes):
    return explanation(AT_BEST._replace(**changes)._asdict(), ["basket"], LABELS, WEEKLY)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"round": 0}, "begins at the start, as it always does"),
        ({}, "deploys its best guess, as last time"),
        ({"deployed": np.array([[1.5, 3.0]])}, "deploys its best guess; since last time milk +0.5 EUR"),
        (TRYING, "tries something out around its best guess: milk +0.1 EUR"),
        (TRYING | {"repeats": 3}, "tries something out around its best guess: milk +0.1 EUR, 3 weeks long"),
        (
            {"decisions": np.array([[1.9, 3.0]]), "deployed": np.array([[1.8, 3.0]])},
            "moves toward its best guess; since last time milk +0.1 EUR",
        ),
        (
            {"planned": np.array([[2.4, 3.0]]), "decisions": np.array([[2.1, 3.0]])},
            "moves toward what it wants to try; since last time milk +0.1 EUR",
        ),
    ],
)
def test_what_is_deployed_is_said_first(changes, sentence):
    assert said(**changes).sentences[0] == sentence


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "expects 1.5 EUR a week more profit than at the start"),
        ({"gain": -0.5}, "expects 0.5 EUR a week less profit than at the start"),
        ({"gain": 0.0}, "expects as much profit as at the start"),
        (TRYING, "trying this is expected to cost nothing"),
        (
            TRYING | {"price": 0.25, "worth": 1.0},
            "trying this is expected to cost 0.25 EUR a week, and what it teaches to bring back about 4 times that",
        ),
        (TRYING | {"wide": True}, "the step is a large one, since nothing else would show what it leads to"),
        ({"limited": True}, "goes no farther than 20 % of the range at once, since it knows too little beyond"),
        ({"held": True}, "goes no farther, since more could be lost than is left of the loss budget"),
        (
            {"decisions": np.array([[1.9, 3.0]]), "max_move": np.array([0.1, 0.15])},
            "goes no farther at once, since max_move allows milk 0.1 EUR, bread 0.15 EUR",
        ),
        (
            {"tight": np.array([True]), "multipliers": np.array([3.1])},
            "basket holds it, and costs you about 3.1 EUR a week per unit",
        ),
        ({"at_lower": np.array([False, True])}, "bread is at its lower bound"),
    ],
)
def test_what_is_expected_and_what_holds_it_follow(changes, sentence):
    assert sentence in said(**changes).sentences[1:]


def test_words_of_the_theory_are_kept_apart():
    why = said(**TRYING, tight=np.array([True]), multipliers=np.array([3.1]))
    assert why.theory[0] == "explores: coordinate 0 moves by +0.1 from θ_t"
    assert not [word for word in ("coordinate", "risk", "θ", "multiplier") if word in " ".join(why.sentences)]
    assert explanation(None, [], LABELS, WEEKLY) is None


def test_a_loss_that_is_shown_as_one_is_to_be_less():
    why = explanation(AT_BEST._asdict(), ["basket"], Labels(), Labels().outcome(5))
    assert why.sentences[1] == "expects 1.5 a row less loss than at the start"
