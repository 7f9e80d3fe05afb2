"""Judging: templates as data, their rendering into tokens, and reading a written verdict."""
