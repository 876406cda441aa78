"""A document that says what should be there, and what carries it out: ``hookgw apply``."""
