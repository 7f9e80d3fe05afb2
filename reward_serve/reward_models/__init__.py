"""Reward models: one file a kind, one protocol."""
