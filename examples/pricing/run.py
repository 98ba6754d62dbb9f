"""Forty rounds of live pricing: a study from spec.toml, the market in another process, then a report and a figure.

    python examples/pricing/run.py [DIRECTORY]

Stop it at any moment and start it again: it resumes where it stopped.
"""

import json
import subprocess
import sys
from pathlib import Path

from performative import Study, plotting

HERE = Path(__file__).parent
ROUNDS = 40


def main(directory):
    directory.mkdir(parents=True, exist_ok=True)
    store = directory / "prices.db"
    exists = store.exists() and "prices" in Study.names(store)
    study = Study.open(store, "prices") if exists else Study.from_spec(store, HERE / "spec.toml")
    market = subprocess.Popen(
        [sys.executable, str(HERE / "world.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with study, market:
        while study.state.round < ROUNDS:
            deployment = study.ask()
            answers = []
            for prices in deployment.decisions:
                question = {"prices": prices.tolist(), "days": deployment.samples, "season": deployment.id}
                print(json.dumps(question), file=market.stdin, flush=True)
                answers.append(json.loads(market.stdout.readline()))
            study.tell(deployment, answers)
        market.stdin.close()
        print(study.status())
        plotting.save(study.plot(), directory / "prices.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/pricing"))
