"""Studies under fire: kills at random moments, and many processes at once: `python -m benchmarks.soak`.

The workers are processes of their own, made by a server that has imported the library and nothing else.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import performative as pf
from performative.study import AlreadyTold, StudyBusy
from performative.study.events import Asked, Canceled, Observed

EFFECT = np.array([[-1.5, 0.3], [0.2, -1.0]])


def revenue(prices: Any, demand: Any) -> Any:
    return -jnp.sum(prices * demand)


def simple() -> Any:
    """A method that is compiled quickly and asks at random."""
    problem = pf.Problem(revenue, pf.Box([0.0, 0.0], [5.0, 5.0]), [pf.constraints.Linear([1.0, 1.0], 4.0, name="cap")])
    return pf.one_point(problem, exploration=0.1)


def answer(deployment: pf.Deployment) -> Any:
    """What the world says: a function of the round and the decision alone."""
    noise = np.random.default_rng(deployment.round).normal(size=(len(deployment.decisions), deployment.samples, 2))
    return np.array([4.0, 5.0]) + (deployment.decisions @ EFFECT.T)[:, None] + 0.5 * noise


def context() -> Any:
    """Where workers come from."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["jax", "performative.study", "performative.methods.zeroth_order"])
    return server


def snapshot(study: pf.Study) -> bytes:
    """The state as it is stored."""
    return study._session.log.store.state


# Killed at random moments.


def work(path: str, rounds: int, pipe: Any) -> None:
    """Open or create the study and continue it; report what was acknowledged."""
    pipe.send(("began", 0))
    method = simple()
    begun = Path(path).exists() and "eu" in pf.Study.names(path)
    study = pf.Study.open(path, "eu", method) if begun else pf.Study.create(path, "eu", method)
    pipe.send(("opened", 0))
    while True:
        deployment = study.ask()
        pipe.send(("asked", deployment.id))
        if deployment.round > rounds:
            pipe.send(("done", 0))
            return
        study.tell(deployment, answer(deployment))
        pipe.send(("told", deployment.id))


def killed(path: Path, kills: int, rounds: int, seed: int = 0) -> dict[str, Any]:
    """Kill workers `kills` times on the way to `rounds` rounds (more are run if need be); what was acknowledged is checked."""
    chance = random.Random(seed)
    server = context()
    acknowledged: dict[str, set[int]] = {"asked": set(), "told": set()}
    during = {"opening": 0, "ask or tell": 0}
    for kill in range(kills + 1):
        receiver, sender = server.Pipe(duplex=False)
        worker = server.Process(target=work, args=(str(path), 10**9 if kill < kills else rounds, sender))
        worker.start()
        sender.close()
        stage, deadline = "", float("inf")
        last = kill == kills
        opening = chance.random() < 0.3
        while True:
            wait = max(0.0, deadline - time.monotonic()) if deadline < float("inf") else 60.0
            if not receiver.poll(wait):
                break
            try:
                word, number = receiver.recv()
            except EOFError:
                break
            if word in acknowledged:
                acknowledged[word].add(number)
            if word == "done":
                break
            if not last and deadline == float("inf"):
                if word == "began" and opening:
                    deadline = time.monotonic() + chance.random() * 0.4
                elif word == "told":
                    deadline = time.monotonic() + chance.random() * 0.05
            stage = word
        if not last:
            assert worker.pid is not None
            during["opening" if stage in ("", "began") else "ask or tell"] += 1
            os.kill(worker.pid, signal.SIGKILL)
            with contextlib.suppress(EOFError):
                while receiver.poll(0.05):  # acknowledged before it died
                    word, number = receiver.recv()
                    if word in acknowledged:
                        acknowledged[word].add(number)
        worker.join()
        receiver.close()
    with pf.Study.open(path, "eu", simple()) as study:
        replay = study.verify()
        asks, tells = [], []
        for event in study.events():
            if isinstance(event, Asked):
                asks.append(event.number)
            elif isinstance(event, Observed):
                tells.append(event.deployment)
        final = snapshot(study)
        reached = int(study.state.round)
    assert len(set(tells)) == len(tells), "an event twice"
    assert acknowledged["told"] <= set(tells), "an acknowledged tell lost"
    assert acknowledged["asked"] <= set(asks), "an acknowledged ask lost"
    with tempfile.TemporaryDirectory() as directory:
        never = pf.Study.create(Path(directory) / "never.db", "eu", simple())
        while (deployment := never.ask()).round < reached:
            never.tell(deployment, answer(deployment))
        assert snapshot(never) == final, "another final state than that of a study that was never killed"
        never.close()
    return {"kills": kills, "told": replay.told, "acknowledged": len(acknowledged["told"]), **during}


# Many processes at once.


def hammer(path: str, seconds: float, seed: int, ready: Any, results: Any) -> None:
    """Ask, tell, cancel and note as fast as it goes; count what happened."""
    with pf.Study.open(shutil.copy(path, f"{path}.{seed}"), "eu", simple()) as warm:  # compiled before the clock starts
        warm.tell(warm.ask(), np.zeros((1, 1, 2)))
    chance = random.Random(seed)
    noise = np.random.default_rng(seed)
    counts = dict.fromkeys(("told", "refused", "busy", "canceled", "noted", "read"), 0)
    study = pf.Study.open(path, "eu", simple())
    ready.wait()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            deployment = study.ask()
            dice = chance.random()
            if dice < 0.03:
                study.cancel(deployment, f"by {seed}")
                counts["canceled"] += 1
            elif dice < 0.06:
                study.note(f"by {seed}")
                counts["noted"] += 1
            elif dice < 0.2:
                assert study.state.round >= deployment.round
                counts["read"] += 1
            else:  # samples that nobody else tells, so that one of two tellers must lose
                study.tell(deployment, noise.normal(size=(1, 1, 2)))
                counts["told"] += 1
        except AlreadyTold:
            counts["refused"] += 1
        except StudyBusy:
            counts["busy"] += 1
    study.close()
    results.put(counts)


def hammered(path: Path, processes: int, seconds: float) -> dict[str, int]:
    """Several processes at one study; the log must be a valid sequence that holds what each was told it holds."""
    server = context()
    pf.Study.create(path, "eu", simple()).close()
    results = server.Queue()
    ready = server.Barrier(processes)
    workers = [
        server.Process(target=hammer, args=(str(path), seconds, seed, ready, results)) for seed in range(processes)
    ]
    for worker in workers:
        worker.start()
    counts = [results.get(timeout=seconds + 300) for _ in workers]
    for worker in workers:
        worker.join()
    total = {name: sum(count[name] for count in counts) for name in counts[0]}
    with pf.Study.open(path, "eu", simple()) as study:
        study.verify()
        logged = valid_sequence(study)
    assert logged["tell"] == total["told"], (logged, total)
    assert logged["cancel"] == total["canceled"], (logged, total)
    assert logged["note"] == total["noted"], (logged, total)
    return total


def valid_sequence(study: pf.Study) -> dict[str, int]:
    """How many events of each kind there are; each ask is followed by at most one tell or cancel, before the next ask."""
    counts = dict.fromkeys(("create", "ask", "tell", "cancel", "note"), 0)
    pending = None
    for place, event in enumerate(study.events()):
        assert event.number == place
        counts[event.kind] += 1
        match event:
            case Asked():
                assert pending is None
                pending = event.number
            case Observed() | Canceled():
                assert event.deployment == pending
                pending = None
    return counts


def main() -> None:
    """300 kills, and a minute of eight processes."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        directory = Path(name)
        print(f"8 processes for {seconds:.0f} s: {hammered(directory / 'hammer.db', 8, seconds)}", flush=True)
        print(f"killed: {killed(directory / 'killed.db', kills, 100)}", flush=True)


if __name__ == "__main__":
    from benchmarks.soak import main as imported  # by its name, so that workers find the same functions

    imported()
