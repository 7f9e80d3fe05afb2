"""The bundled judge's LoRA adapter, a PEFT folder; ``reward_serve.embedded`` merges it."""
