"""The long comparison, 10⁵ deployments × 20 realizations on every problem, of every method that can afford so many.

`python -m benchmarks.compare` runs it, writes docs/compare/, prints a table and says how long it took.
"""

import json
import time
from pathlib import Path

DIRECTORY = Path(__file__).parent.parent / "docs" / "compare"


SHORT = ("stay", "least-squares", "thompson")
"""Methods left to `benchmarks.first_hundred`: two solve a problem at every deployment, and one has nothing to show."""


def methods():
    """Those that are compared here."""
    from performative.comparison.contenders import CONTENDERS

    return [name for name in CONTENDERS if name not in SHORT]


def table(summary):
    """Regret per deployment, a line a problem; bold where no method is better, † where constraints were broken."""
    lines = [f"| | {' | '.join(methods())} |", "|---" * (len(methods()) + 1) + "|"]
    for problem, rows in summary["problems"].items():
        by_method = {row["method"]: row for row in rows}
        cells = []
        for method in methods():
            row = by_method.get(method)
            if row is None:
                cells.append("–")
                continue
            mean = row["deployed_regret"][0]
            shown = "not finite" if mean is None else f"{mean:.2g}"
            shown = f"**{shown}**" if row["rank"] == 1 else shown
            cells.append(shown + ("†" if row["broke"] else ""))
        lines.append(f"| {problem} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    from performative import comparison

    begun = time.monotonic()
    found = comparison.compare(methods=methods(), deployments=100_000, realizations=20, workers=2)
    comparison.write(found, DIRECTORY)
    for data in DIRECTORY.glob("*.nc"):
        data.unlink()  # megabytes; summary.json has the numbers of the table
    print(table(json.loads((DIRECTORY / "summary.json").read_text())))
    print(f"{time.monotonic() - begun:.0f} s on two processes")


if __name__ == "__main__":
    main()
