"""A stand-in for a GOWA server."""
