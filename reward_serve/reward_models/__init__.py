"""Reward models: one module per kind, with a common protocol."""
