"""Pages of messages."""
