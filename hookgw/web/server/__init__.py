"""The HTTP/1.1 server: listeners, request framing, limits, timeouts and TLS."""
