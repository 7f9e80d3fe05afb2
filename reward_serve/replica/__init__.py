"""The Serve deployment that owns one reward model."""
