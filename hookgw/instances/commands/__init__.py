"""Commands for instances."""
