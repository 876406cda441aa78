"""The HTTP client: resolves, vets, dials, and sends requests."""
