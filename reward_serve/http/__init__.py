"""The HTTP service: routes, limits, status codes and API keys, without scoring logic."""
