"""Checks of responses whose reference is no answer: tests of programs, constraints on the text."""
