"""Conformance: the rules that every method keeps, as checks for your own methods.

In a test, call `checks.require(method, environment)`.
"""

from performative.checks.rules import CHECKS
from performative.checks.suite import Check, conformance, require
from performative.errors import NotConforming

__all__ = ["CHECKS", "Check", "NotConforming", "conformance", "require"]
