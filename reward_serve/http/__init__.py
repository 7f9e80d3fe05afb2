"""The service over HTTP: routes, limits, status codes, keys; no scoring logic."""
