"""Judging the samples of one prompt against each other: contract, strategies and ranking."""
