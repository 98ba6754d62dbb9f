import os
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from performative.cli.compiled import keep_compiled
from performative.numerics.kept import MOST

JAX = ("JAX_COMPILATION_CACHE_DIR", "JAX_COMPILATION_CACHE_MAX_SIZE", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS")
COMPILES = """
from performative.cli.compiled import keep_compiled
keep_compiled()
import jax
print(jax.jit(lambda x: 2 * x + 1)(3.0))
"""


@pytest.fixture
def settings(monkeypatch):
    for name in (*JAX, "PERFORMATIVE_CACHE"):
        monkeypatch.setenv(name, "")  # so that they are as they were afterward
        monkeypatch.delenv(name)
    return monkeypatch


def test_programs_are_kept_in_the_users_cache_directory(settings, tmp_path):
    settings.setattr(platformdirs, "user_cache_path", lambda name: tmp_path / name)
    keep_compiled()
    directory = Path(os.environ["JAX_COMPILATION_CACHE_DIR"])
    assert directory.parent == tmp_path / "performative" / "compiled"
    assert directory.stat().st_mode & 0o77 == 0
    assert os.environ["JAX_COMPILATION_CACHE_MAX_SIZE"] == str(MOST)


def test_the_directory_may_be_chosen_or_none_and_jaxs_own_settings_stay(settings, tmp_path):
    settings.setenv("PERFORMATIVE_CACHE", "off")
    keep_compiled()
    assert not set(JAX) & set(os.environ)
    settings.setenv("PERFORMATIVE_CACHE", str(tmp_path / "mine"))
    settings.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    keep_compiled()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "elsewhere"
    settings.delenv("JAX_COMPILATION_CACHE_DIR")
    keep_compiled()
    assert Path(os.environ["JAX_COMPILATION_CACHE_DIR"]).parent == tmp_path / "mine"


def test_a_directory_that_cannot_be_made_is_done_without(settings, tmp_path):
    (tmp_path / "file").touch()
    settings.setenv("PERFORMATIVE_CACHE", str(tmp_path / "file" / "below"))
    keep_compiled()
    assert "JAX_COMPILATION_CACHE_DIR" not in os.environ


def test_processes_share_the_directory_and_damage_in_it_changes_no_result(settings, tmp_path):
    settings.setenv("PERFORMATIVE_CACHE", str(tmp_path))

    def answers(count):
        command = [sys.executable, "-c", COMPILES]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
        return [process.communicate()[0].strip() for process in running]

    assert answers(2) == ["7.0", "7.0"]
    kept = list(tmp_path.glob("*/*-cache"))
    assert kept
    for program in kept:
        program.write_bytes(program.read_bytes()[:20])
    assert answers(1) == ["7.0"]
