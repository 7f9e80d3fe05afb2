"""Inference engines and their models. Only these modules import an engine."""
