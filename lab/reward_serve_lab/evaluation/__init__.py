"""Measures a deployed judge against labels: ``python -m reward_serve eval``."""
