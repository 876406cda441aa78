"""Pages of deliveries and lanes."""
