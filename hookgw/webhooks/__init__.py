"""Registrations: their fields, how requests change them, and how responses show them. No I/O."""
