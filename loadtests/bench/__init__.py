"""Benchmarks of the service: ``make bench``."""
