"""Records and rules without I/O: what every other layer speaks about."""
