"""A fleet: several nodes that share one PostgreSQL. Nothing here runs with SQLite."""
