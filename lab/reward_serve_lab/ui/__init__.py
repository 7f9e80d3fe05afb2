"""The workbench: pages in a browser that show why a response earned what it earned.

A process of its own beside the service, made with NiceGUI: ``python -m reward_serve ui``. All text
on its pages is a policy's, and shown as text: see ``text``.
"""
