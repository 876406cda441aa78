"""The HTTP server: listeners, request framing, limits, timeouts and TLS."""
