"""Programs that are compiled once on a machine."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from performative.numerics import kept, programs
from performative.numerics.precision import precise
from performative.numerics.programs import Program, told_of_compiling
from performative.numerics.pytrees import pytree

FACTOR = {"value": 2.0}


@pytree("power")
class Line:
    slope: np.ndarray
    power: int


def raised(line, x):
    return {"y": (line.slope * x) ** line.power, "x": x}


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setenv(kept.SWITCH, str(tmp_path))
    return tmp_path


def compiled(call, *given, **static):
    """What a call returns, and the names of the programs that it compiled."""
    names = []
    with precise(), told_of_compiling(names.append):
        result = call(*given, **static)
    return result, [name for name in names if name]


def test_a_program_is_compiled_once_for_each_structure_and_shape(home):
    program, line = Program(raised), Line(np.array([1.0, 2.0]), 3)
    result, names = compiled(program, line, np.array([1.0, 2.0]))
    np.testing.assert_array_equal(result["y"], [1.0, 64.0])
    assert names == ["raised"]
    assert compiled(program, Line(np.array([2.0, 2.0]), 3), np.zeros(2))[1] == []
    assert compiled(program, Line(np.array([1.0, 2.0]), 2), np.zeros(2))[1] == ["raised"]
    assert compiled(program, line, 1.0)[1] == ["raised"]
    assert compiled(Program(raised), line, np.zeros(2))[1] == []  # from the disk


def test_keywords_are_static(home):
    program = Program(lambda x, times: jnp.tile(x, times))
    assert compiled(program, np.ones(2), times=3)[0].shape == (6,)
    assert compiled(program, np.ones(2), times=2)[0].shape == (4,)


def test_a_program_inside_another_is_a_part_of_it(home):
    program = Program(raised)
    with precise():
        slope = jax.grad(lambda x: program(Line(np.array(2.0), 2), x)["y"])(3.0)
    assert float(slope) == 24.0


def test_the_first_argument_may_be_given_once(home):
    program, line = Program(raised), Line(np.array([1.0, 2.0]), 3)
    result, names = compiled(program.of(line), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(result["y"], [1.0, 64.0])
    assert names == ["raised"]
    assert compiled(program, line, np.array([1.0, 2.0]))[1] == []


def test_what_a_function_reads_is_part_of_the_program(home, monkeypatch):
    def scaled(x):
        return FACTOR["value"] * x

    assert compiled(Program(scaled), np.ones(2))[1] == ["scaled"]
    assert compiled(Program(scaled), np.ones(2))[1] == []
    monkeypatch.setitem(FACTOR, "value", 3.0)
    result, names = compiled(Program(scaled), np.ones(2))
    np.testing.assert_array_equal(result, 3.0)
    assert names == ["scaled"]


def test_nothing_is_kept_that_calls_back_or_returns_classes_of_ones_own(home):
    class Mine:
        pass

    jax.tree_util.register_pytree_node(Mine, lambda mine: ((), None), lambda _, children: Mine())
    shape = jax.ShapeDtypeStruct((), np.float64)
    for function in (lambda x: jax.pure_callback(np.sin, shape, x), lambda x: (x, Mine())):
        for _ in range(2):
            assert len(compiled(Program(function), 1.0)[1]) == 1
    assert not list(home.rglob("*.program"))


def test_a_damaged_file_is_compiled_again(home):
    line = Line(np.array(2.0), 3)
    compiled(Program(raised), line, 1.0)
    (file,) = home.rglob("*.program")
    for damaged in (b"", file.read_bytes()[:40], file.read_bytes()[:-1] + b"?"):
        file.write_bytes(damaged)
        result, names = compiled(Program(raised), line, 1.0)
        assert float(result["y"]) == 8.0
        assert names == ["raised"]
    assert compiled(Program(raised), line, 1.0)[1] == []


def test_the_programs_that_were_not_used_for_longest_make_room(home, monkeypatch):
    for power in (1, 2, 3):
        compiled(Program(raised), Line(np.array(2.0), power), 1.0)
        newest = max(home.rglob("*.program"), key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, (power, power))
    compiled(Program(raised), Line(np.array(2.0), 1), 1.0)  # used again
    size = sum(path.stat().st_size for path in home.rglob("*.program"))
    monkeypatch.setattr(programs, "MOST", int(1.1 * size))
    compiled(Program(raised), Line(np.array(2.0), 4), 1.0)
    left = [not compiled(Program(raised), Line(np.array(2.0), power), 1.0)[1] for power in (4, 1, 3, 2)]
    assert left == [True, True, True, False]


def test_it_can_be_turned_off_and_does_without_a_directory(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    for wanted in ("off", str(tmp_path / "file" / "below")):
        monkeypatch.setenv(kept.SWITCH, wanted)
        assert kept.directory() is None
        assert float(compiled(Program(raised), Line(np.array(2.0), 3), 1.0)[0]["y"]) == 8.0


@pytest.mark.parametrize("jaxs_own", [False, True], ids=["alone", "beside JAX's own cache"])
def test_other_processes_load_what_one_compiled(home, tmp_path, jaxs_own):
    script = """
import numpy as np, performative as pf
from performative.losses import Revenue
from performative.methods import safe_primal_dual
from performative.numerics.precision import precise
from performative.numerics.programs import told_of_compiling
import jax
names = []
method = pf.safe_apda(pf.Problem(Revenue(), pf.Box([0.0, 0.0], [5.0, 5.0])), start=[1.0, 1.0], samples=3)
with told_of_compiling(names.append):
    state = method.init(jax.random.key(0))
    state = method.tell(state, np.ones((1, 2)), np.arange(6.0).reshape(1, 3, 2))
print(sum(map(bool, names)), np.asarray(state.decision).tobytes().hex())
"""
    own = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "jax"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    free = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}

    def run(place):
        environment = free | (own if jaxs_own else {}) | {kept.SWITCH: str(place)}
        ran = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        return ran.stdout.split()

    first, elsewhere, again = run(tmp_path / "a"), run(tmp_path / "b"), run(tmp_path / "b")
    assert first[0] == elsewhere[0] != "0"
    assert again[0] == "0"
    assert first[1] == elsewhere[1] == again[1]
