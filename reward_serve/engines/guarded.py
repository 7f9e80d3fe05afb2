"""Makes the process that imports it die with its parent; for the fork server's preload list."""

from reward_serve.engines.process_guard import install

install()
