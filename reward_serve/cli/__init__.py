"""The ``reward-serve`` command line, one module per command."""
