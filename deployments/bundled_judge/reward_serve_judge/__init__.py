"""The bundled judge's LoRA adapter, a PEFT folder; ``reward_serve.engines.bundled`` merges it."""
