"""The load test of a running service; ``loadtests/locustfile.py`` is its entry for locust."""

SHAPES = ("steady", "spike", "grpo_burst", "long_rollouts")
"""Load over time: constant, with a peak in the middle, or rollouts that end in bursts."""
