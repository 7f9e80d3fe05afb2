"""Everything that ``args`` of a ``deployments/*.yaml`` may say, checked when it is read."""
