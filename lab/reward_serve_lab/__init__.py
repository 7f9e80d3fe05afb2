"""Measuring and looking: score files, evaluate and attack a judge, check templates, the workbench.

Its commands join ``reward-serve``: ``reward-serve eval rows.jsonl``.
"""
