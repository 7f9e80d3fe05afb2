"""The service broken on purpose, under load that knows every right answer: ``make chaos``."""
