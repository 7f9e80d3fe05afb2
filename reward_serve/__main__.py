"""``python -m reward_serve``."""

from reward_serve.cli.main import main

main()
