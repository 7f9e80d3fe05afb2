"""``python -m reward_serve``."""

from reward_serve.cli import main

main()
