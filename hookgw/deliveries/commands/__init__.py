"""Commands for deliveries and lanes."""
