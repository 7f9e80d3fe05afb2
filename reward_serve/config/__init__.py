"""The configuration in ``args`` of a deployments file, validated when it is read."""
