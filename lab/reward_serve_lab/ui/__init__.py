"""The workbench: browser pages that show why a response got its score.

It runs in its own process (``reward-serve ui``) and is built with NiceGUI. Text from policies and
services is untrusted and shown as plain text: see ``text``.
"""
