"""Functions by their names."""

import sys

import pytest

from performative.loading import load


def test_what_cannot_be_loaded_is_said(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "needs_another.py").write_text("import no_such_module_anywhere\n")
    for name, message in (
        ("math", "must be module:function, but got 'math'"),
        (":hypot", "must be module:function"),
        ("no_such_module_anywhere:loss", "ModuleNotFoundError: .* put `PYTHONPATH=FOLDER` before the command"),
        ("needs_another:loss", "No module named 'no_such_module_anywhere'; Python finds modules that are installed"),
        ("math:nothing", "AttributeError: module 'math' has no attribute 'nothing'$"),
        (".math:hypot", "cannot be imported: TypeError"),
        ("math:pi", "must be a function, but is 3.14"),
    ):
        with pytest.raises(ValueError, match=message):
            load("loss", name)


def test_the_working_directory_is_no_part_of_pythons_path(tmp_path, monkeypatch):
    """Unless the caller says so: the module lies where the program runs."""
    (tmp_path / "lying_here.py").write_text("def loss(theta, z):\n    return 2.0\n")
    monkeypatch.chdir(tmp_path)
    before = [*sys.path]
    with pytest.raises(ValueError, match="No module named 'lying_here'"):
        load("loss", "lying_here:loss")
    assert sys.path == before
    monkeypatch.syspath_prepend(tmp_path)
    assert load("loss", "lying_here:loss")(0.0, 0.0) == 2.0
