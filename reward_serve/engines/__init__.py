"""Inference engines: the only modules that know one."""
