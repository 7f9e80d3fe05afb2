"""The first run on a GPU: what travels there, ``make gpu-check`` and ``make bench-gpu``."""
