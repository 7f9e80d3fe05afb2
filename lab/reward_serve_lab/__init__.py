"""Score files, evaluate and attack a judge, check templates, and inspect verdicts in a browser.

Adds commands to ``reward-serve``: ``reward-serve eval rows.jsonl``.
"""
