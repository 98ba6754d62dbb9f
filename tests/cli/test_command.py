"""The command as a whole: its version, its help, and what it imports for them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import performative
from performative.cli import app

ROOT = Path(__file__).parent.parent.parent


def test_a_former_name_is_answered_with_the_present_one():
    with pytest.raises(AttributeError, match="'repeated_minimisation'; it is now 'repeated_minimization'"):
        performative.repeated_minimisation  # noqa: B018
    with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'$"):
        performative.nonsense  # noqa: B018


def test_the_version_stands_in_one_place():
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output == f"performative {performative.__version__}\n"
    tracked = [*ROOT.glob("src/**/*.py"), ROOT / "pyproject.toml"]
    written = [path for path in tracked if re.search(rf"\b{re.escape(performative.__version__)}\b", path.read_text())]
    assert written == [ROOT / "src" / "performative" / "__init__.py"]


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["study", "--help"], ["reproduce", "--help"]])
def test_help_and_version_do_not_import_the_heavy_libraries(words):
    code = (
        f"import sys; from typer.testing import CliRunner; from performative.cli import app; "
        f"assert CliRunner().invoke(app, {words}).exit_code == 0; "
        "heavy = {'jax', 'cvxpy', 'xarray', 'matplotlib', 'scipy', 'pandas', 'numpy'} & set(sys.modules); assert not heavy, heavy"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


LIGHT = [  # the last one closes the deployment that the others look at
    ["ask"],
    ["ask", "--json"],
    ["why"],
    ["log"],
    ["export", "--out", "history.csv"],
    ["note", "a holiday"],
    ["cancel", "--deployment", "1", "--reason", "closed"],
]


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """The folder of a study that waits for its first samples."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "spec.toml").write_text(
        'name = "eu"\ndecisions = {type = "box", lower = [0.0], upper = [5.0]}\nloss = {type = "revenue"}\n'
        'method = {type = "safe_apda", start = [1.0], samples = 5}\n'
    )
    with performative.Study.from_spec(folder / "prices.db", folder / "spec.toml") as study:
        study.ask()
    return folder


@pytest.mark.parametrize("words", LIGHT, ids=" ".join)
def test_what_is_known_is_printed_without_the_heavy_libraries(words, asked):
    """The next decision is computed when samples are reported, so asking for it waits for no compiler."""
    words = ["study", *words, "--store", "prices.db"]
    code = (
        f"import sys; from typer.testing import CliRunner; from performative.cli import app; "
        f"result = CliRunner().invoke(app, {words}); assert result.exit_code == 0, result.output; "
        "heavy = {'jax', 'cvxpy', 'xarray', 'matplotlib', 'scipy', 'pandas'} & set(sys.modules); assert not heavy, heavy"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=asked)
    assert ran.returncode == 0, ran.stderr
