"""Algorithms that know a problem and a risk, but no world."""
