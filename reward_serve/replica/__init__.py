"""The Serve deployment that owns one reward model, and what it does with a request."""
