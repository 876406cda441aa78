"""Pages of instances."""
