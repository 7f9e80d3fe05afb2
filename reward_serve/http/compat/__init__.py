"""Protocols of other trainers and clients, enabled by ``server.compatible_with``."""
