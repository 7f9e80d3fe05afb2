"""One small program a peer, run in that peer's environment."""
