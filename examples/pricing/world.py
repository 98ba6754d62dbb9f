"""The market, in a process of its own: reads prices, a JSON table a line, and answers with the quantities of so many days.

Demand is different in every season, and the same in a season that is asked for again.

    echo '{"prices": [2.0, 2.0, 2.0], "days": 2, "season": 1}' | python world.py
"""

import json
import sys

import numpy as np

BASE = np.array([9.0, 8.0, 7.0])
EFFECT = np.array([[-1.6, 0.3, 0.2], [0.3, -1.4, 0.2], [0.2, 0.2, -1.2]])
NOISE = 0.5


def main():
    for line in sys.stdin:
        asked = json.loads(line)
        random = np.random.default_rng(asked["season"])
        mean = BASE + EFFECT @ np.asarray(asked["prices"])
        days = mean + NOISE * random.normal(size=(asked["days"], 3))
        print(json.dumps(days.tolist()), flush=True)


if __name__ == "__main__":
    main()
