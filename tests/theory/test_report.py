"""The report on a problem: where the problem comes from, and how the command prints it."""

from __future__ import annotations

import sys

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
    for text in (
        "γ",
        "1.28",
        "proved: ‖∇g‖ is constant",
        "These bounds are proved",
        "T ≥ 32 L_g² = 64",
        "fails",
        "holds",
        "ζ_t = 2/(1·t + 8)",
    ):
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


def test_a_module_beside_a_problem_file_is_found_where_python_looks(tmp_path, monkeypatch):
    path = tmp_path / "mine.py"
    path.write_text("from shop_beside import problem\nenvironment = 1\n")
    (tmp_path / "shop_beside.py").write_text("problem = 1\n")
    before = [*sys.path]
    with pytest.raises(
        ValueError, match=r"No module named 'shop_beside'; .* put `PYTHONPATH=FOLDER` before the command"
    ):
        load(str(path))
    assert sys.path == before
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"must define `problem`, a performative\.Problem, but it is 1"):
        load(str(path))


@pytest.mark.slow
def test_the_command_says_what_is_only_estimated(tmp_path):
    """The spread of the gradient over a Gaussian base is an average over draws: the bounds made of it are no proof."""
    path = tmp_path / "mine.py"
    path.write_text(
        "import jax.numpy as jnp, numpy as np, performative as pf\n"
        "problem = pf.Problem(lambda theta, z: jnp.sum(theta**2 * (1 + 0.1 * z[0]) - theta * z[1]), pf.Ball(1.0), "
        "[pf.constraints.Linear([1.0], 0.2, name='cap')])\n"
        "shift = lambda effect, theta: jnp.concatenate([jnp.zeros(1), effect * theta])\n"
        "environment = pf.LocationFamily(pf.Gaussian(np.ones(2), 0.1 * np.ones(2)), [0.2], shift)\n"
    )
    result = CliRunner().invoke(app, ["check", str(path), "--rounds", "1000"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "estimated: ∇ℓ(θ; Z₀ + Aθ) is affine in θ" in result.output
    assert "These bounds are estimated, not proved: uniform_variance is estimated." in result.output


def test_the_command_falls_back_where_slaters_condition_fails(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import jax.numpy as jnp, performative as pf\n"
        "problem = pf.Problem(lambda theta, z: 0.5 * jnp.sum((theta - 1.0) ** 2), pf.Ball(1.0), "
        "[pf.constraints.Quadratic([[1.0]], 0.0)])\n"
        "environment = pf.LocationFamily(pf.Gaussian(0.0, 0.0), [[0.0]])\n"
    )
    result = CliRunner().invoke(app, ["check", str(path), "--rounds", "1000000"], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "Slater's condition fails: the violation is only O(T^(3/4))" in result.output
    assert "each average violation at most 0.2615" in result.output
