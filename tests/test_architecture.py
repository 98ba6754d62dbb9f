"""The house: which room may import which, as README draws it, and the wall between methods and the truth."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest
from house_map import ROOT, SOURCE, TOP, drawn_map, map_of_readme, rooms_of_readme

import performative

BEHIND_THE_WALL = ("methods", "estimators", "study")


def imports(source):
    """(file, room, imported module) for every import of the library in it, inside functions and type checks too.

    `performative/__init__.py` loads its names on first use and is no part of the graph.
    """
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).parts
        if parts == ("__init__.py",):
            continue
        room = TOP if len(parts) == 1 else parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path} has a relative import"
                modules = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
                modules = [word.value for word in node.args if isinstance(word, ast.Constant)]
            else:
                continue
            for module in modules:
                if module.split(".")[0] == "performative":
                    yield path.relative_to(source), room, module


def room_of(source, module):
    """The room that a module, or a name in it, lives in; None for the version, which is the package's own.

    The package lends names of all rooms, so whoever imports it whole can reach any of them: it counts as the truth's.
    """
    parts = module.split(".")[1:]
    if parts == ["__version__"]:
        return None
    if not parts or parts == ["*"]:
        return "truth"
    parts = performative._HOMES.get(parts[0], parts[0]).split(".")
    return parts[0] if (source / parts[0]).is_dir() else TOP


def broken_wall(source):
    return [
        f"{path} imports {module}"
        for path, room, module in imports(source)
        if room in BEHIND_THE_WALL and room_of(source, module) == "truth"
    ]


def out_of_order(source, order):
    """Imports of a room that stands below the importing one, or beside the map."""
    rank = {room: number for number, room in enumerate(order)}
    return [
        f"{path} imports {module}"
        for path, room, module in imports(source)
        if (other := room_of(source, module)) is not None and other != room and not rank[other] < rank[room]
    ]


def test_the_map_names_every_room():
    folders = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert set(rooms_of_readme()) == folders | {TOP}


def test_methods_estimators_and_studies_never_see_the_truth():
    assert broken_wall(SOURCE) == []


def test_imports_point_up_the_map():
    assert out_of_order(SOURCE, rooms_of_readme()) == []


def test_files_of_a_room_do_not_import_in_circles():
    """Files of one room import each other one way too."""
    graph = defaultdict(set)
    for path, _, module in imports(SOURCE):
        for parts in (module.split(".")[1:], module.split(".")[1:-1]):
            target = Path(*parts).with_suffix(".py") if parts else None
            if target is not None and (SOURCE / target).exists() and target != path:
                graph[path].add(target)
    done, way = set(), []

    def visit(path):
        assert path not in way, " → ".join(map(str, [*way[way.index(path) :], path]))
        if path not in done:
            way.append(path)
            for target in sorted(graph[path]):
                visit(target)
            way.pop()
            done.add(path)

    for path in sorted(graph):
        visit(path)


def empty_house(directory):
    """All rooms of the map, with nothing in them."""
    house = directory / "performative"
    for room in rooms_of_readme():
        place = house if room == TOP else house / room
        place.mkdir(parents=True, exist_ok=True)
        (place / "__init__.py").touch()
    return house


@pytest.mark.parametrize("room", BEHIND_THE_WALL)
@pytest.mark.parametrize(
    "line",
    [
        "from performative.truth.risk import performative_risk",
        "import performative.truth.optimum",
        "from performative import truth",
        "def f():\n    from performative.truth import optimum",
        "from performative import performative_optimum",
        "def f():\n    import performative as pf",
        "from performative import *",
        "import importlib\nimportlib.import_module('performative.truth.risk')",
    ],
)
def test_a_hole_in_the_wall_is_seen(tmp_path, room, line):
    """The test above can fail: an empty house with one such import, in a function or not, does."""
    house = empty_house(tmp_path)
    (house / room / "curious.py").write_text(line + "\n")
    assert len(broken_wall(house)) == 1
    assert len(out_of_order(house, rooms_of_readme())) == 1


def test_an_import_down_the_map_is_seen(tmp_path):
    house = empty_house(tmp_path)
    (house / "solvers" / "curious.py").write_text(
        "def f():\n    from performative.simulation.simulate import simulate\n"
    )
    assert [line.split()[0] for line in out_of_order(house, rooms_of_readme())] == ["solvers/curious.py"]


def test_the_map_of_readme_shows_every_file():
    assert map_of_readme() == drawn_map(), "run `python tests/helpers/house_map.py`"


def test_type_checkers_know_what_the_package_lends():
    """A name imported `as` itself is one for users too; without it strict type checkers refuse `pf.apda`."""
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    lent = {
        alias.asname: f"{line.module}.{alias.name}".removeprefix("performative.")
        for line in block.body
        for alias in line.names
    }
    homes = {name: f"{home}.{name}" for name, home in performative._HOMES.items()}
    assert lent == homes | {name: name for name in performative._MODULES}


def untyped_fields(source):
    """Fields of classes whose annotation says `Any`, of which a type checker checks nothing."""
    return [
        f"{path.relative_to(source)}: {cls.name}.{ast.unparse(field.target)}"
        for path in sorted(source.rglob("*.py"))
        for cls in ast.walk(ast.parse(path.read_text()))
        if isinstance(cls, ast.ClassDef)
        for field in cls.body
        if isinstance(field, ast.AnnAssign)
        if any(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(field.annotation))
    ]


def test_every_field_has_a_type():
    assert untyped_fields(SOURCE) == []


def test_a_field_without_a_type_is_seen(tmp_path):
    (tmp_path / "state.py").write_text("class State:\n    round: Array\n    parts: dict[str, Any]\n")
    assert untyped_fields(tmp_path) == ["state.py: State.parts"]


SPANNING = {
    "examples/test_pricing.py": "examples/pricing",
    "examples/test_season.py": "examples/season",
    "experiments/test_against_numpy.py": "both experiments, once more in NumPy",
    "experiments/test_long_runs.py": "statistics of long runs",
    "methods/test_forgetting.py": "an option that several methods share",
    "methods/test_stable_and_optimal.py": "where each method ends",
    "problems/test_cases.py": "all standard problems",
    "simulation/test_failures.py": "iterates that are not finite",
    "simulation/test_plain_objects.py": "your own plain classes",
    "study/test_damage.py": "what every call says of a damaged file",
    "test_architecture.py": "the house",
    "test_documentation.py": "README and docs",
    "test_mistakes.py": "the mistakes of new users, all over the library",
}
"""Test files about more than one module, and what they are about."""


def test_tests_mirror_the_sources():
    """Every other test file is named after the module it is about."""
    homeless = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        place = path.relative_to(ROOT / "tests")
        if str(place) not in SPANNING and not (SOURCE / place.parent / path.name.removeprefix("test_")).exists():
            homeless.append(str(place))
    assert homeless == []
    assert all((ROOT / "tests" / name).exists() for name in SPANNING)
