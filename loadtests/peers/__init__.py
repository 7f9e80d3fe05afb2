"""Other projects' judges and this one on the same endpoint: ``python -m loadtests.peers``."""
