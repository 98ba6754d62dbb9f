"""The command line: each command parses, calls the library and prints."""

from performative.cli.command import app

__all__ = ["app"]
