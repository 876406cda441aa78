"""Pages of operators."""
