"""A year of a shop, from the terminal: what is told, mistyped, taken back, rounded, declined and changed in 52 weeks.

    python examples/season/run.py [DIRECTORY]

Every step is a command that a person could type; the market that answers is `market`, below.
"""

import datetime
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
WEEKS, STORE_DAYS = 52, 20
START = datetime.date(2026, 1, 5)
NAMES = ("milk", "bread", "coffee")
ATTRACTION = np.array([0.2, -0.1, -0.6])
SENSITIVITY = np.array([0.9, 0.8, 0.55])
TODAY = np.array([2.5, 2.4, 4.5])


def market(prices, week):
    """What is sold of each product in so many store-days: 200 visitors each buy one of them or nothing, and days differ."""
    random = np.random.default_rng(week)
    worth = np.exp(ATTRACTION - SENSITIVITY * (np.asarray(prices) - TODAY))
    buyers = 200.0 * worth / (1.0 + worth.sum())
    days = np.exp(0.2 * random.normal(size=(STORE_DAYS, 1)) - 0.02)
    return random.poisson(buyers * days)


def report(path, week, sold, slip=None):
    """A CSV file as the shop's system writes it: by the alphabet, with a date, semicolons and commas in numbers."""
    order = sorted(range(len(NAMES)), key=lambda place: NAMES[place])
    lines = [";".join(["date", *(NAMES[place] for place in order)])]
    for day, row in enumerate(sold):
        date = START + datetime.timedelta(weeks=week - 1, days=day % 7)
        cells = [f"{row[place]:.1f}".replace(".", ",") for place in order]
        if slip is not None and day == 3:
            cells[0] = slip
        lines.append(";".join([date.isoformat(), *cells]))
    path.write_text("\n".join(lines) + "\n")


def shelf(prices):
    """Prices as they are printed on the shelf: multiples of five cents, rounded down so that limits hold."""
    return np.floor(np.asarray(prices) / 0.05 + 1e-9) * 0.05


class Season:
    """The year of one shop in a directory.

    `command` runs `performative study …` and returns its exit code and what it printed.
    """

    def __init__(self, directory, command):
        self.directory, self.command = directory, command
        self.log = []

    def do(self, *words, code=0):
        """One command; anything but the expected exit code is an error."""
        words = [str(word) for word in words]
        found, printed = self.command(words)
        self.log.append((words, printed))
        if found != code:
            raise RuntimeError(f"performative study {' '.join(words)} ended with {found}:\n{printed}")
        return printed

    def spec(self, name, *changes):
        """Another description: the first one with some texts replaced."""
        text = (HERE / "spec.toml").read_text()
        for before, after in changes:
            if before not in text:
                raise ValueError(f"the description must hold {before!r}")
            text = text.replace(before, after)
        path = self.directory / name
        path.write_text(text)
        return path

    def play(self):
        """The whole year; returns what the last status printed."""
        store = ("--store", self.directory / "shop.db")
        file = self.directory / "week.csv"
        read = ("--sep", ";", "--decimal", ",", "--ignore", "date", "--yes")
        cost = ("cost = [1.2, 1.1, 2.4]", "cost = [1.4, 1.1, 2.4]")
        cap = ("bound = 14.0", "bound = 12.5")
        self.do("rehearse", self.spec("spec.toml"))
        self.do("new", "--no-rehearsal", self.directory / "spec.toml", *store)
        for week in range(1, WEEKS + 1):
            if week == 20:
                dearer = self.spec("dearer.toml", cost)
                self.do(
                    "amend",
                    dearer,
                    "--reason",
                    "milk costs 20 cents more",
                    "--as",
                    "Ada",
                    "--yes",
                    "--no-rehearsal",
                    *store,
                )
            if week == 35:
                capped = self.spec("capped.toml", cost, cap)
                self.do(
                    "amend",
                    capped,
                    "--reason",
                    "a basket of 12.50 was promised",
                    "--as",
                    "Ada",
                    "--yes",
                    "--no-rehearsal",
                    *store,
                )
            if week == 30:
                self.do("note", "summer sale next door", *store)
            asked = json.loads(self.do("ask", "--json", *store))
            if week == 11:  # not above 3 for milk, for now
                words = ("--reason", "milk is our bait", "--upper", "milk=3", "--as", "Grace")
                self.do("decline", "--deployment", asked["id"], *words, *store)
                asked = json.loads(self.do("ask", "--json", *store))
            if week == 26:
                words = (
                    "--reason",
                    "milk may be dear again, coffee not",
                    "--upper",
                    "milk=inf",
                    "--upper",
                    "coffee=6.5",
                    "--as",
                    "Grace",
                )
                self.do("decline", "--deployment", asked["id"], *words, *store)
                asked = json.loads(self.do("ask", "--json", *store))
            number = ("--deployment", asked["id"])
            prices = np.asarray(asked["decisions"][0])
            if week == 8:  # what was proposed, but bread as it was
                prices = np.array([prices[0], TODAY[1], prices[2]])
                edited = ",".join(f"{price:.4f}" for price in prices)
                self.do("approve", *number, "--decisions", edited, "--as", "Grace", *store)
            else:
                self.do("approve", *number, "--as", "Grace", *store)
            rounded = shelf(prices)
            deployed = ("--deployed", ",".join(f"{price:.2f}" for price in rounded))
            sold = market(rounded, week)
            if week == 9:  # 3e9 pieces in one cell are held back
                report(file, week, sold, slip="3000000000")
                self.do("tell", file, *number, *deployed, *read, *store, code=1)
            if week == 14:  # the numbers of the branch across the street, taken back a week later
                report(file, week, market(1.2 * rounded, 1000 + week))
                wrong, right = number, (week, sold, deployed)
                self.do("tell", file, *number, *deployed, *read, *store)
                continue
            if week == 15:
                words = ("--reason", "the numbers of the other branch", "--as", "Ada")
                self.do("retract", *wrong, *words, *store)
                report(file, right[0], right[1])
                self.do("tell", file, *wrong, *right[2], *read, *store)
            report(file, week, sold)
            self.do("tell", file, *number, *deployed, *read, *store)
        self.do("key", "--out", self.directory / "shop.key")
        self.do("sign", "--key", self.directory / "shop.key", *store)
        self.do("verify", "--key", self.directory / "shop.key", *store)
        self.do("log", *store)
        self.do("plot", *store, "--out", self.directory / "shop.png")
        return self.do("status", *store)


def in_a_process(words):
    """The command, as a person would type it."""
    ran = subprocess.run(["performative", "study", *words], capture_output=True, text=True, check=False)
    return ran.returncode, ran.stdout + ran.stderr


def main(directory):
    directory.mkdir(parents=True)
    season = Season(directory, in_a_process)
    season.play()
    for words, printed in season.log:
        print(f"$ performative study {' '.join(words)}\n{printed}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/season"))
