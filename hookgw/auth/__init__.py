"""Keys, limits on callers, and the address a request came from."""
