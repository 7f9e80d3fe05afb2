"""Runs on a GPU machine without a network: what is sent to it, and the commands check and bench."""
