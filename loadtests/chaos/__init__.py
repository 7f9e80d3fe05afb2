"""Fault injection under a load with known answers: ``make chaos``."""
