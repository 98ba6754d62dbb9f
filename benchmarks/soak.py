"""Studies under fire: kills at random moments, also of corrections, and many processes at once: `python -m benchmarks.soak`.

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
import warnings
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


CAPS = (4.0, 3.5)
"""The caps that amendments go back and forth between."""


def simple(cap: float = CAPS[0]) -> Any:
    """A method that is compiled quickly and asks at random."""
    problem = pf.Problem(revenue, pf.Box([0.0, 0.0], [5.0, 5.0]), [pf.constraints.Linear([1.0, 1.0], cap, name="cap")])
    return pf.one_point(problem, exploration=0.1, start=[1.0, 1.0])


def opened(path: str | Path) -> pf.Study:
    """The study with whichever cap it has now."""
    try:
        return pf.Study.open(path, "eu", simple(CAPS[0]))
    except pf.OtherMethod:
        return pf.Study.open(path, "eu", simple(CAPS[1]))


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


BEGINNINGS = {
    "opened": "opening", "asked": "asking", "approved": "approving", "told": "telling", "retracted": "retracting",
    "amended": "amending",
}  # fmt: skip
"""What a worker says before each kind of action, by what it says afterward."""


def work(path: str, rounds: int, pipe: Any) -> None:
    """Open or create the study and continue it, with corrections now and then; report what begins and what was acknowledged."""
    pipe.send(("opening", 0))
    begun = Path(path).exists() and "eu" in pf.Study.names(path)
    study = opened(path) if begun else pf.Study.create(path, "eu", simple(), approval=True)
    pipe.send(("opened", 0))
    while True:
        pipe.send(("asking", 0))
        deployment = study.ask()
        pipe.send(("asked", deployment.id))
        if deployment.round > rounds:
            pipe.send(("done", 0))
            return
        if not deployment.approved:
            pipe.send(("approving", 0))
            edited = np.clip(np.round(deployment.decisions, 1), 0.0, 1.7) if deployment.id % 2 else None
            deployment = study.approve(deployment, edited, by="soak")
            pipe.send(("approved", deployment.id))
        pipe.send(("telling", 0))
        study.tell(deployment, answer(deployment), confirm=True)
        pipe.send(("told", deployment.id))
        if deployment.id % 5 == 0:
            pipe.send(("retracting", 0))
            study.retract(deployment, "a typo", by="soak")
            pipe.send(("retracted", deployment.id))
        if deployment.id % 7 == 0:
            pipe.send(("amending", 0))
            cap = study.method.problem.constraints[0].bound
            study.amend(simple(CAPS[1] if float(cap[0]) == CAPS[0] else CAPS[0]), "another cap", by="soak")
            pipe.send(("amended", study.count - 1))


def killed(path: Path, kills: int, rounds: int, seed: int = 0) -> dict[str, Any]:
    """Kill workers `kills` times on the way to `rounds` rounds (more are run if need be); what was acknowledged is checked.

    Each is killed at a random moment of one kind of action, or soon afterward: moments are as long as it took before.
    """
    chance = random.Random(seed)
    server = context()
    kinds = {"asked": "ask", "approved": "approve", "told": "tell", "retracted": "retract", "amended": "amend"}
    acknowledged: dict[str, set[int]] = {word: set() for word in kinds}
    during = dict.fromkeys((*BEGINNINGS.values(), "between"), 0)
    took = dict.fromkeys(BEGINNINGS, 0.05)
    for kill in range(kills + 1):
        receiver, sender = server.Pipe(duplex=False)
        worker = server.Process(target=work, args=(str(path), 10**9 if kill < kills else rounds, sender))
        worker.start()
        sender.close()
        stage, deadline = "", float("inf")
        last = kill == kills
        target, began = chance.choice([*BEGINNINGS]), 0.0
        while True:
            wait = max(0.0, deadline - time.monotonic()) if deadline < float("inf") else 60.0
            if not receiver.poll(wait):
                break
            try:
                word, number = receiver.recv()
            except EOFError as error:
                raise AssertionError(f"a worker ended by itself, after {stage!r}") from error
            if word in acknowledged:
                acknowledged[word].add(number)
            if word == "done":
                break
            if not last and word == BEGINNINGS[target] and deadline == float("inf"):
                began = time.monotonic()
                deadline = began + chance.random() * 1.3 * took[target]
            elif word == target and began:
                took[target] = time.monotonic() - began
            stage = word
        if not last:
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
            with contextlib.suppress(EOFError):
                while receiver.poll(0.05):  # begun and acknowledged before it died
                    stage, number = receiver.recv()
                    if stage in acknowledged:
                        acknowledged[stage].add(number)
            during[stage if stage in during else "between"] += 1
        worker.join()
        receiver.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error", pf.StudyWarning)
        study = opened(path)
    with study:
        replay = study.verify()
        logged: dict[str, list[int]] = {kind: [] for kind in kinds.values()}
        for event in study.events():
            if event.kind in logged:
                logged[event.kind].append(getattr(event, "deployment", event.number))
        final, method = snapshot(study), study.method
        counted = [(one.decisions, one.observed.samples) for one in study._session.reported()]
    for word, kind in kinds.items():
        assert len(set(logged[kind])) == len(logged[kind]), f"{kind} twice"
        assert acknowledged[word] <= set(logged[kind]), f"an acknowledged {kind} lost"
    assert replay.told == len(counted) == len(logged["tell"]) - len(logged["retract"])
    with tempfile.TemporaryDirectory() as directory:
        never = pf.Study.create(Path(directory) / "never.db", "eu", method)
        for decisions, samples in counted:
            never.tell(never.ask(), samples, deployed=decisions, confirm=True)
        assert snapshot(never) == final, "another final state than that of a study that was never killed or corrected"
        never.close()
    done = {word: len(numbers) for word, numbers in acknowledged.items()}
    return {"kills": kills, "during": during, "reports": replay.told, "acknowledged": done}


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
                study.tell(deployment, noise.normal(size=(1, 1, 2)), confirm=True)
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
