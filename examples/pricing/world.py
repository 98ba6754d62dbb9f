"""The market, in its own process: reads prices, one JSON object per line, and answers with the quantities sold on so many days.

Demand differs from season to season; asking for the same season again gives the same demand.

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
        question = json.loads(line)
        random = np.random.default_rng(question["season"])
        mean = BASE + EFFECT @ np.asarray(question["prices"])
        days = mean + NOISE * random.normal(size=(question["days"], 3))
        print(json.dumps(days.tolist()), flush=True)


if __name__ == "__main__":
    main()
