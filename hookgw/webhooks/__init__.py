"""Registrations: their fields, changes and responses. No I/O."""
