"""The HTTP client: resolves, vets, dials and posts."""
