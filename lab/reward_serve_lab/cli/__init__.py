"""The lab's commands; each is an entry point of the group ``reward_serve.commands``."""
