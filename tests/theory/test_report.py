"""The report on a problem: where the problem comes from, and how the command prints it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from performative.cli import app
from performative.theory.report import load


def test_the_command_reports_on_a_problem_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import jax.numpy as jnp, numpy as np, performative as pf\n"
        "problem = pf.Problem(lambda theta, z: jnp.sum((theta - z) ** 2), pf.Ball(1.0), "
        "[pf.constraints.Linear([1.0, 1.0], 0.5, name='cap')])\n"
        "environment = pf.LocationFamily(pf.Gaussian(np.ones(2), 0.1 * np.ones(2)), 0.2 * np.eye(2))\n"
    )
    result = CliRunner().invoke(app, ["check", str(path), "--rounds", "10"], env={"COLUMNS": "100"})
    assert result.exit_code == 0, result.output
    # PR = 0.64‖θ‖² + …, and ∇g is the constant (1, 1): γ = 1.28, L_g² = 2.
    for text in ("γ", "1.28", "exact: ‖∇g‖ is constant", "T ≥ 32 L_g² = 64", "fails", "holds", "ζ_t = 2/(1·t + 8)"):
        assert text in result.output
    assert "Steps for T = 64" in result.output  # the least T that the theorem applies to


@pytest.mark.parametrize(
    ("text", "message"), [("problem = 1", "must define `problem`"), (None, "a Python file that exists")]
)
def test_the_command_refuses_what_is_no_problem(tmp_path, text, message):
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load(str(path))
