"""Connectors: their sessions, connection states, and sends."""
