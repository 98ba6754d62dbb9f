"""A study described in TOML."""

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
