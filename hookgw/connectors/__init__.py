"""The kit for connectors."""
