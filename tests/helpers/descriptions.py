"""Descriptions of studies that nobody meant: a good one with values, keys and whole tables replaced."""

import copy
import datetime
import math
import tomllib

from described import SPEC
from hypothesis import strategies as st

GOOD = tomllib.loads(SPEC)
KINDS = (
    "safe_apda",
    "apda",
    "pd_ps",
    "repeated_gradient",
    "repeated_minimization",
    "two_stage",
    "one_point",
    "two_point",
)
TABLES = {
    "decisions": [{"type": "ball", "radius": 2.0}, {"type": "simplex", "total": 1.0}, {"type": "budget", "total": 1.0}],
    "loss": [
        {"type": "squared_error"},
        {"type": "logistic"},
        {"type": "pinball", "level": 0.5},
        {"type": "portfolio_return", "aversion": 1.0},
        {"type": "function", "function": "math:hypot"},
    ],
    "method": [{"type": kind} for kind in KINDS],
    "constraints": [[], [{"type": "quadratic", "matrix": [[1.0, 0.0], [0.0, 1.0]], "bound": 9.0}]],
    "history": [{"file": "past.csv", "decisions": ["p1", "p2"], "data": ["a", "b"]}],
}
KEYS = [
    "name", "seed", "dimension", "decisions", "loss", "method", "constraints", "history", "type", "lower", "upper",
    "center", "radius", "total", "coefficients", "bound", "matrix", "linear", "ridge", "cost", "aversion", "level",
    "smoothing", "function", "names", "start", "samples", "loss_budget", "max_move", "deployments", "exploration",
    "anchor", "safety", "effect", "effect_error", "signs", "reservoir", "forgetting", "step", "warmup", "recycle",
    "stage", "probes", "control", "file", "data", "count", "rehearsal", "mean", "spread",
]  # fmt: skip
NUMBERS = st.one_of(
    st.sampled_from(
        [0, 1, 2, -1, 3.0, 0.5, -0.0, 1e-300, 1e300, -1e300, math.inf, -math.inf, math.nan, 2**63, -(2**63)]
    ),
    st.floats(-5.0, 5.0),
)
PHRASES = [
    "eu", "box", "function", "5%", "-1%", "pull", "nearest", "math:pi", "os:", ":", "", "inside", "past.csv", "p1", "/",
]  # fmt: skip
WORDS = st.one_of(st.sampled_from(PHRASES), st.text(max_size=4))
SCALARS = st.one_of(NUMBERS, WORDS, st.booleans(), st.just(datetime.date(2024, 2, 29)))
ROWS = st.lists(NUMBERS, max_size=3)
VALUES = st.one_of(
    SCALARS,
    ROWS,
    st.lists(ROWS, max_size=3),
    st.lists(WORDS, max_size=3),
    st.dictionaries(st.sampled_from(KEYS), SCALARS, max_size=2),
)


@st.composite
def descriptions(draw):
    """The text of a description with up to four changes."""
    file = copy.deepcopy(GOOD)
    for name in draw(st.lists(st.sampled_from(sorted(TABLES)), max_size=2, unique=True)):
        file[name] = copy.deepcopy(draw(st.sampled_from(TABLES[name])))
    for _ in range(draw(st.integers(0, 3))):
        tables = [file] + [part for part in file.values() if isinstance(part, dict)]
        tables += (
            [part for part in file["constraints"] if isinstance(part, dict)]
            if isinstance(file.get("constraints"), list)
            else []
        )
        table = draw(st.sampled_from(tables))
        key = draw(
            st.sampled_from(sorted({*table} | {*KEYS}))
            if draw(st.booleans()) or not table
            else st.sampled_from(sorted(table))
        )
        if draw(st.integers(0, 4)):
            table[key] = draw(VALUES)
        else:
            table.pop(key, None)
    return "\n".join(f"{_word(key)} = {toml(value)}" for key, value in file.items())


def toml(value):
    """A value as TOML has it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_word(key)} = {toml(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return _word(value) if isinstance(value, str) else str(value)


def _word(text):
    escaped = (
        f"\\u{ord(one):04X}" if one in '"\\' or (not one.isprintable() and ord(one) < 65536) else one for one in text
    )
    return '"' + "".join(escaped).encode("utf-8", "replace").decode() + '"'
