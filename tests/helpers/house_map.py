"""The map of the sources as README draws it: every file with the first sentence of its docstring.

`python tests/helpers/house_map.py` draws it anew.
"""

import ast
import itertools
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "performative"
README = ROOT / "README.md"
TOP = "top level"
WIDTH = 24


def rooms_of_readme():
    """The rooms in the order of README's table: each may import those above it."""
    lines = README.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| room |"))
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[start + 2 :])
    return [row.split("|")[1].strip().strip("`").rstrip("/") for row in rows]


def first_sentence(path):
    paragraph = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=[a-zθΘ₀)`])(?<!et al)\.(?: |$)", paragraph)[0].rstrip(".")


def drawn_map():
    """One line for each file, room by room; `__init__.py` files only collect names."""
    lines = ["src/performative/"]
    for room in rooms_of_readme():
        folder = SOURCE if room == TOP else SOURCE / room
        paths = folder.glob("*.py") if room == TOP else folder.rglob("*.py")
        if room != TOP:
            lines.append(f"  {room}/")
        for path in sorted(path for path in paths if path.name != "__init__.py"):
            name = str(path.relative_to(folder))
            indent = "  " if room == TOP else "    "
            lines.append(f"{indent}{name:{WIDTH}}  {first_sentence(path)}")
    return "\n".join(lines)


def map_of_readme():
    return re.search(r"^```\n(src/performative/\n.*?)\n```$", README.read_text(), re.DOTALL | re.MULTILINE).group(1)


if __name__ == "__main__":
    README.write_text(README.read_text().replace(map_of_readme(), drawn_map()))
