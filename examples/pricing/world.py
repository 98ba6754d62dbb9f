"""The market, in a process of its own: reads prices, one JSON list a line, and answers with the quantities of so many days.

echo '{"prices": [2.0, 2.0, 2.0], "days": 2}' | python world.py
"""

import json
import sys

import numpy as np

BASE = np.array([9.0, 8.0, 7.0])
EFFECT = np.array([[-1.6, 0.3, 0.2], [0.3, -1.4, 0.2], [0.2, 0.2, -1.2]])
NOISE = 0.5


def main():
    random = np.random.default_rng(1)
    for line in sys.stdin:
        asked = json.loads(line)
        mean = BASE + EFFECT @ np.asarray(asked["prices"])
        days = mean + NOISE * random.normal(size=(asked["days"], 3))
        print(json.dumps(days.tolist()), flush=True)


if __name__ == "__main__":
    main()
