"""Checks of responses whose reference is no answer: tests of programs, constraints on the text."""

VERSION = "1"
"""Incremented when a check's decisions change; part of fingerprints."""
