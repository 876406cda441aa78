"""API keys: their fields, how requests create them and how responses show them. No I/O."""
