"""Verdict logs of several replicas, nodes and runs as one table, and what it shows."""
