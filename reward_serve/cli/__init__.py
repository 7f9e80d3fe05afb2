"""``reward-serve ...``: a module for each command."""
