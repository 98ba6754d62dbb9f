"""Signatures: whoever has a key vouches for all that a study held at that moment."""

from __future__ import annotations

import hashlib
import hmac

from performative.errors import StudyDamaged, StudyError
from performative.study.encoding import decoded
from performative.study.events import Signed
from performative.study.store import Store

LEAST = 32
"""How many bytes a key must have at least."""


def require_key(key: bytes) -> None:
    """Refuse what is too short to be a secret."""
    if not isinstance(key, bytes):
        raise TypeError(f"`key` must be bytes, but got {type(key).__name__}")
    if len(key) < LEAST:
        raise ValueError(
            f"`key` must have at least {LEAST} bytes, but has {len(key)}; `performative study key` makes one"
        )


def key_name(key: bytes) -> str:
    """What a key is called in the open; it does not tell the key."""
    return _code(key, b"name", b"")[:16]


def signature(key: bytes, digest: bytes) -> str:
    """The HMAC-SHA256 of a digest, which is that of all events before the signature."""
    return _code(key, b"events", digest)


def _code(key: bytes, purpose: bytes, message: bytes) -> str:
    return hmac.new(key, b"performative study\0" + purpose + b"\0" + message, hashlib.sha256).hexdigest()


def last_signed(store: Store, key: bytes) -> int:
    """The last event that is signed with the key, as all before it are; the digests of the records must have been verified."""
    name, others = key_name(key), set[str]()
    for record in store.backward():
        event = decoded(record.seq, record.body)
        if not isinstance(event, Signed):
            continue
        if event.key != name:
            others.add(event.key)
        elif hmac.compare_digest(event.signature, signature(key, record.before)):
            return record.seq - 1
        else:
            raise StudyDamaged(
                f"the signature in event {record.seq} of {store.path} is not by the key {name}: it was forged or changed"
            )
    by = f"by {', '.join(sorted(others))} alone" if others else "by nobody"
    raise StudyError(f"the study in {store.path} must be signed with the key {name}, but is signed {by}")
