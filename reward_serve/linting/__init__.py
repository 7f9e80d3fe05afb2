"""Finds the mistakes in a judging template before a policy does."""
