"""How many deployments a study takes in a second, and how fast a long one is opened: `python -m benchmarks studies`."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import performative as pf
from benchmarks.rows import Row, over, under
from performative.study.store import Store


def ten(samples: int) -> tuple[dict[str, Any], Callable[[], Any]]:
    """Two methods at d = k = 10, one that does much in a round and one that does little, and what is told to them."""
    problem = pf.Problem(
        lambda theta, z: -jnp.sum(z * theta) + jnp.sum(theta**2),
        pf.Box(np.zeros(10), np.ones(10)),
        [pf.constraints.Linear(np.ones(10), 3.0, name="cap")],
    )
    noise = np.random.default_rng(0)
    methods = {
        "safe_apda": pf.safe_apda(problem, samples=samples),
        "repeated_gradient": pf.repeated_gradient(problem, samples=samples),
    }
    return methods, lambda: 1.0 + noise.normal(size=(1, samples, 10))


def cycles(directory: Path, count: int = 2000) -> Iterator[Row]:
    """Ask and tell, beside as many raw commits of as many bytes, taking turns."""
    methods, samples = ten(50)
    studies = {name: pf.Study.create(directory / "cycles.db", name, method) for name, method in methods.items()}
    raw = sqlite3.connect(directory / "raw.db", isolation_level=None)
    raw.execute("PRAGMA journal_mode = WAL")
    raw.execute("PRAGMA synchronous = FULL")
    raw.execute("CREATE TABLE events (key INTEGER PRIMARY KEY, record BLOB)")
    for study in studies.values():
        for _ in range(20):
            study.tell(study.ask(), samples(), confirm=True)
    store = studies["safe_apda"]._session.log.store
    bodies = [b"x" * len(record.body) for record in store.records(store.count - 2)]
    spent, raw_spent, turn = dict.fromkeys(studies, 0.0), 0.0, 100
    for _ in range(count // turn):
        for name, study in studies.items():
            clock = time.perf_counter()
            for _ in range(turn):
                study.tell(study.ask(), samples(), confirm=True)
            spent[name] += time.perf_counter() - clock
        clock = time.perf_counter()
        for body in turn * bodies:
            raw.execute("BEGIN IMMEDIATE")
            raw.execute("INSERT INTO events (record) VALUES (?)", (body,))
            raw.execute("COMMIT")
        raw_spent += time.perf_counter() - clock
    for study in studies.values():
        study.close()
    raw.close()
    beside = f"beside {count / raw_spent:.0f} pairs of raw commits of SQLite"
    for name, seconds in spent.items():
        claim = f"ask+tell cycles a second of `{name}`, d = k = 10, 50 samples, two durable commits each, {beside}"
        yield over(claim, count / seconds, 800)


def reopening(directory: Path, events: int = 1_000_000) -> Iterator[Row]:
    """A study of many events, made of the records of a real one, and how long opening it takes."""
    methods, samples = ten(1)
    method, path = methods["safe_apda"], directory / "long.db"
    study = pf.Study.create(path, "eu", method)
    for _ in range(10):
        study.tell(study.ask(), samples(), confirm=True)
    store = study._session.log.store
    bodies = [record.body for record in store.records(1)]
    connection = store._writing()
    connection.execute("PRAGMA synchronous = OFF")
    lengthen(store, connection, bodies[-2:], store.state, events)
    study.close()
    method = ten(1)[0]["safe_apda"]
    for label in ("the first time", "again"):
        clock = time.perf_counter()
        study = pf.Study.open(path, "eu", method)
        spent = time.perf_counter() - clock
        yield under(
            f"reopening {study.count:,} events of one sample each ({path.stat().st_size / 1e6:.0f} MB), {label}",
            spent,
            1.5,
            "s",
        )
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


def rows() -> Iterator[Row]:
    """All lines."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        yield from cycles(Path(name))
        yield from reopening(Path(name))
