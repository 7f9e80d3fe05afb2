"""Measures a deployed judge against labels: ``reward-serve eval``."""
