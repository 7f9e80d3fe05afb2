"""Runs on a GPU without a network: what is sent to its machine, and the commands check and bench."""
