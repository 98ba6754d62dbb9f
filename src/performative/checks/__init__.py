"""Conformance: the rules that every method keeps, as checks that a method of your own can be put through.

checks.require(method, environment)  # in a test of yours
"""

from performative.checks.rules import CHECKS
from performative.checks.suite import Check, conformance, require
from performative.errors import NotConforming

__all__ = ["CHECKS", "Check", "NotConforming", "conformance", "require"]
