"""Inference engines. Only these modules import one."""
