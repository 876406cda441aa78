"""Routes of instances."""
