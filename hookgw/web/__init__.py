"""The HTTP API: a Quart application on Trio, and the server that runs it."""
