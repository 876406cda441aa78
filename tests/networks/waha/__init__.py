"""A stand-in for a WAHA server."""
