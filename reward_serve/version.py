"""The version of the service and of its wire contract."""

__version__ = "0.1.0"

VERSION_HEADER = "x-reward-serve-version"
