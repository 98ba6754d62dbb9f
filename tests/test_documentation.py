"""README and docs are run by the tests."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_examples_of_the_readme_run_and_print_what_it_says(tmp_path):
    text = (ROOT / "README.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    printed = re.search(r"It prints\n\n```\n(.*?)```", text, re.DOTALL).group(1)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(printed)


def test_every_name_in_the_algorithm_table_exists():
    from performative import engine, estimators, exploration, primal_dual

    homes = (engine, estimators, exploration, primal_dual)
    table = (ROOT / "docs" / "algorithm.md").read_text().split("\n\n")[1]
    names = re.findall(r"`([A-Za-z_.]+)`", table)
    assert len(names) > 8
    for name in names:
        parts = name.split(".")
        owner = next((getattr(home, parts[-2]) for home in homes if len(parts) > 1 and hasattr(home, parts[-2])), None)
        if owner is None:
            owner = next(home for home in homes if home.__name__.endswith(parts[0]))
        assert hasattr(owner, parts[-1]), name


def test_help_does_not_import_the_heavy_libraries():
    code = (
        "import sys; from typer.testing import CliRunner; from performative.cli import app; "
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0; "
        "heavy = {'jax', 'cvxpy', 'xarray', 'matplotlib', 'scipy', 'pandas', 'numpy'} & set(sys.modules); assert not heavy, heavy"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
