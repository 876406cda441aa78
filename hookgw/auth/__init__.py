"""Keys, limits on callers, and client addresses."""
