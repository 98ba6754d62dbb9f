"""Studies under fire: kills at random moments, many processes at once, and how fast it goes: `python -m benchmarks.soak`.

The workers are processes of their own, made by a server that has imported the library and nothing else.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import performative as pf
from performative.study import AlreadyTold, StudyBusy
from performative.study.events import Asked, Canceled, Observed
from performative.study.store import Store

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


# How fast.


def ten() -> tuple[dict[str, Any], Callable[[], Any]]:
    """Two methods at d = k = 10, one that does much in a round and one that does little, and what is told to them."""
    problem = pf.Problem(
        lambda theta, z: -jnp.sum(z * theta) + jnp.sum(theta**2),
        pf.Box(np.zeros(10), np.ones(10)),
        [pf.constraints.Linear(np.ones(10), 3.0, name="cap")],
    )
    noise = np.random.default_rng(0)
    methods = {"safe_apda": pf.safe_apda(problem), "repeated_gradient": pf.repeated_gradient(problem)}
    return methods, lambda: 1.0 + noise.normal(size=(1, 1, 10))


def cycles(directory: Path, count: int = 2000) -> Iterator[str]:
    """Ask and tell, against as many raw commits of the same bytes, taking turns."""
    methods, samples = ten()
    studies = {name: pf.Study.create(directory / "cycles.db", name, method) for name, method in methods.items()}
    raw = sqlite3.connect(directory / "raw.db", isolation_level=None)
    raw.execute("PRAGMA journal_mode = WAL")
    raw.execute("PRAGMA synchronous = FULL")
    raw.execute("CREATE TABLE events (key INTEGER PRIMARY KEY, record BLOB)")
    for study in studies.values():
        for _ in range(20):
            study.tell(study.ask(), samples())
    spent, raw_spent, turn = dict.fromkeys(studies, 0.0), 0.0, 100
    for _ in range(count // turn):
        for name, study in studies.items():
            clock = time.perf_counter()
            for _ in range(turn):
                study.tell(study.ask(), samples())
            spent[name] += time.perf_counter() - clock
        clock = time.perf_counter()
        for _ in range(2 * turn):
            raw.execute("BEGIN IMMEDIATE")
            raw.execute("INSERT INTO events (record) VALUES (?)", (b"x" * 400,))
            raw.execute("COMMIT")
        raw_spent += time.perf_counter() - clock
    for study in studies.values():
        study.close()
    raw.close()
    for name, seconds in spent.items():
        yield f"{count / seconds:.0f} ask+tell cycles a second of {name}, two durable commits each"
    yield f"{2 * count / raw_spent:.0f} raw SQLite commits a second, so {count / raw_spent:.0f} pairs, in the same run"


def reopening(directory: Path, events: int = 1_000_000) -> Iterator[str]:
    """A study of many events, made of the records of a real one, and how long opening it takes."""
    methods, samples = ten()
    method, path = methods["safe_apda"], directory / "long.db"
    study = pf.Study.create(path, "eu", method)
    for _ in range(10):
        study.tell(study.ask(), samples())
    store = study._session.log.store
    bodies = [record.body for record in store.records(1)]
    connection = store._writing()
    connection.execute("PRAGMA synchronous = OFF")
    lengthen(store, connection, bodies[-2:], store.state, events)
    study.close()
    method = ten()[0]["safe_apda"]
    for label in ("first", "again"):
        clock = time.perf_counter()
        study = pf.Study.open(path, "eu", method)
        spent = time.perf_counter() - clock
        yield f"{spent:.2f} s to reopen {study.count} events ({path.stat().st_size / 1e6:.0f} MB), {label}"
        study.close()


def lengthen(store: Store, connection: sqlite3.Connection, pair: list[bytes], state: bytes, events: int) -> None:
    """Add copies of an ask and a tell as the store itself would, in one transaction."""
    import hashlib

    digest = hashlib.sha256(state).digest()

    def rows() -> Iterator[tuple[int, bytes]]:
        while store.count < events:
            record = store._running.digest() + digest + pair[store.count % 2 - 1]
            store._running.update(record)
            store.count += 1
            yield (store._study << 40) + store.count - 1, record

    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO events VALUES (?, ?)", rows())
    head = (store.count - 1, store._running.digest(), store._study)
    connection.execute("UPDATE heads SET seq = ?, digest = ? WHERE study = ?", head)
    connection.execute("COMMIT")


def main() -> None:
    """All of it: 300 kills, a minute of eight processes, cycles a second, a million events."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        directory = Path(name)
        for line in (*cycles(directory), *reopening(directory)):
            print(line, flush=True)
        print(f"8 processes for {seconds:.0f} s: {hammered(directory / 'hammer.db', 8, seconds)}", flush=True)
        print(f"killed: {killed(directory / 'killed.db', kills, 100)}", flush=True)


if __name__ == "__main__":
    from benchmarks.soak import main as imported  # by its name, so that workers find the same functions

    imported()
