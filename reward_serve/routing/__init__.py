"""Splits batches over the replicas of reward models and joins their results."""
