"""The server under the application: listeners, framing, limits, TLS."""
