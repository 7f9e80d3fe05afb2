"""GRPO with TRL."""
