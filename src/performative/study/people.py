"""Who took back a report, changed a method, approved or declined."""

from __future__ import annotations

import getpass


def person(by: str | None) -> str:
    """The name that is given, or that of the system's user.

    >>> person("Ada")
    'Ada'
    """
    if by is None:
        try:
            by = getpass.getuser()
        except (OSError, KeyError, ImportError) as error:  # which of them depends on the system and on Python's version
            raise ValueError("`by` must say who it is, since the system does not know its user") from error
    return words("by", by, "a name")


def words(argument: str, text: str, what: str) -> str:
    """A nonempty text; `argument` is what the error calls it, and `what` says what it should be."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"`{argument}` must be a nonempty string, {what}, but got {text!r}")
    return text
